// Makes N files in a new folder below the current one, or N folders, and removes them again; prints the microseconds that one creation took.
//
//   creator N [folders]
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 10000, folders = argc > 2 && !strcmp(argv[2], "folders");
    char name[64], place[] = "creations.XXXXXX";
    if (!mkdtemp(place) || chdir(place)) return perror(place), 1;
    double start = now();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s-%d", folders ? "folder" : "file", i);
        int made = folders ? mkdir(name, 0755) : open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (made == -1) return perror(name), 1;
        if (!folders) close(made);
    }
    double took = now() - start;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s-%d", folders ? "folder" : "file", i);
        if (folders ? rmdir(name) : unlink(name)) return perror(name), 1;
    }
    if (chdir("..") || rmdir(place)) return perror(place), 1;
    printf("%.2f\n", took / count);
    return 0;
}
