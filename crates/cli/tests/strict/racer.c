// One thread makes a file by a name that another one changes all the time, between a harmless name and a foothold; a third changes what a
// harmless link leads to.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Eight letters, changed at once, and the end mark.
static volatile unsigned long letters[2];
static volatile int over;
static unsigned long harmless, foothold;

static void *swap(void *unused) {
    while (!over) {
        letters[0] = foothold;
        for (volatile int i = 0; i < 200; i++);
        letters[0] = harmless;
        for (volatile int i = 0; i < 200; i++);
    }
    return unused;
}

static void *relink(void *unused) {
    while (!over) {
        symlink(".envrc", "l.new"), rename("l.new", "link");
        symlink("target", "l.new"), rename("l.new", "link");
    }
    return unused;
}

int main(void) {
    pthread_t one, two;
    const char *name = (const char *)letters;
    memcpy(&harmless, "./harmls", 8);
    memcpy(&foothold, "./.envrc", 8);
    letters[0] = harmless;
    pthread_create(&one, NULL, swap, NULL);
    pthread_create(&two, NULL, relink, NULL);
    int refused = 0, made = 0, caught = 0;
    struct stat seen;
    for (int i = 0; i < 20000; i++) {
        long result;
        switch (i % 4) {
        case 0: result = syscall(SYS_openat, AT_FDCWD, name, O_CREAT | O_WRONLY, 0644); break;
        case 1: result = syscall(SYS_mkdir, name, 0755); break;
        case 2: result = syscall(SYS_symlink, "x", name); break;
        default: result = syscall(SYS_openat, AT_FDCWD, "link", O_CREAT | O_WRONLY, 0644);
        }
        if (result == -1 && errno == EPERM) refused++;
        if (result >= 0) made++;
        if (result > 2) close((int)result);
        if (lstat(".envrc", &seen) == 0) caught++;
        unlink("harmls"), rmdir("harmls"), unlink("target");
    }
    over = 1;
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    if (caught) puts("CAUGHT");
    printf("20000 tries: refused %s, made %s\n", refused ? "yes" : "no", made ? "yes" : "no");
    return 0;
}
