/* Asks the kernel about every path of a list, once: what a complete search of an unchanged tree has to do at the least.
 *
 *   statx LIST
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: statx LIST\n");
        return 2;
    }
    FILE *list = fopen(words[1], "r");
    if (!list) {
        perror(words[1]);
        return 1;
    }
    char *path = NULL;
    size_t room = 0;
    ssize_t length;
    struct statx found;
    while ((length = getline(&path, &room, list)) > 0) {
        if (path[length - 1] == '\n')
            path[length - 1] = 0;
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &found) != 0) {
            perror(path);
            return 1;
        }
    }
    free(path);
    fclose(list);
    return 0;
}
