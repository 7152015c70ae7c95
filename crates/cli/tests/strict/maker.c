// maker CALL NAME: makes NAME in the current folder by this call. Prints MADE or the name of the error.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name;
static char path[PATH_MAX], cwd[PATH_MAX];

static const char *below(const char *folder) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static long file(const char *at) { return close(open(at, O_CREAT | O_WRONLY, 0644)); }

static long temporary(int by_proc) {
    int made = open(".", O_TMPFILE | O_RDWR, 0644);
    if (made == -1) return -1;
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", made);
    if (by_proc) return syscall(SYS_linkat, AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    return syscall(SYS_linkat, made, "", AT_FDCWD, name, AT_EMPTY_PATH);
}

static long bound(const char *at) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(at) >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
    strcpy(address.sun_path, at);
    return syscall(SYS_bind, socket(AF_UNIX, SOCK_STREAM, 0), &address, sizeof address);
}

static void *in_thread(void *result) {
    unshare(CLONE_FS);
    mkdir("inner", 0755);
    chdir("inner");
    char up[PATH_MAX];
    snprintf(up, sizeof up, "../%s", name);
    int made = open(up, O_CREAT | O_WRONLY, 0644);
    *(long *)result = made == -1 ? -errno : 0;
    return NULL;
}

static long done(const char *call) {
    if (!strcmp(call, "open")) return syscall(SYS_open, name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (!strcmp(call, "open-tmpfile-linkat-proc")) return temporary(1);
    if (!strcmp(call, "open-tmpfile-linkat-empty")) return temporary(0);
    if (!strcmp(call, "openat")) return syscall(SYS_openat, AT_FDCWD, name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (!strcmp(call, "openat-absolute")) return syscall(SYS_openat, -1, below(cwd), O_CREAT, 0600);
    if (!strcmp(call, "openat-descriptor")) {
        mkdir("inner", 0755);
        int folder = open("inner", O_PATH);
        snprintf(path, sizeof path, "../%s", name);
        return syscall(SYS_openat, folder, path, O_CREAT, 0600);
    }
    if (!strcmp(call, "openat-through-link")) return symlink(name, "one"), syscall(SYS_openat, AT_FDCWD, "one", O_CREAT, 0600);
    if (!strcmp(call, "openat-through-links"))
        return symlink("two", "one"), symlink(below(cwd), "two"), syscall(SYS_openat, AT_FDCWD, "one", O_CREAT | O_WRONLY, 0600);
    if (!strcmp(call, "openat-proc-cwd")) return syscall(SYS_openat, AT_FDCWD, below("/proc/self/cwd"), O_CREAT, 0600);
    if (!strcmp(call, "openat-thread-cwd")) return syscall(SYS_openat, AT_FDCWD, below("/proc/thread-self/cwd"), O_CREAT, 0600);
    if (!strcmp(call, "openat-proc-fd")) {
        char own[64];
        snprintf(own, sizeof own, "/proc/self/fd/%d", open(".", O_RDONLY));
        return syscall(SYS_openat, AT_FDCWD, below(own), O_CREAT, 0600);
    }
    if (!strcmp(call, "creat")) return syscall(SYS_creat, name, 0644);
    if (!strcmp(call, "mkdir")) return syscall(SYS_mkdir, name, 0755);
    if (!strcmp(call, "mkdir-slash")) return strcat(strcpy(path, name), "//"), syscall(SYS_mkdir, path, 0755);
    if (!strcmp(call, "mkdirat")) return syscall(SYS_mkdirat, AT_FDCWD, name, 0755);
    if (!strcmp(call, "mknod")) return syscall(SYS_mknod, name, S_IFREG | 0644, 0);
    if (!strcmp(call, "mknodat")) return syscall(SYS_mknodat, AT_FDCWD, name, S_IFREG | 0644, 0);
    if (!strcmp(call, "mknod-fifo")) return syscall(SYS_mknod, name, S_IFIFO | 0644, 0);
    if (!strcmp(call, "rename")) return file("old"), syscall(SYS_rename, "old", name);
    if (!strcmp(call, "rename-folder")) return mkdir("old", 0755), syscall(SYS_rename, "old/", name);
    if (!strcmp(call, "renameat")) return file("old"), syscall(SYS_renameat, AT_FDCWD, "old", AT_FDCWD, name);
    if (!strcmp(call, "renameat2")) return file("old"), syscall(SYS_renameat2, AT_FDCWD, "old", AT_FDCWD, name, 0);
    if (!strcmp(call, "renameat2-noreplace")) return file("old"), syscall(SYS_renameat2, AT_FDCWD, "old", AT_FDCWD, name, 1);
    if (!strcmp(call, "link")) return file("old"), syscall(SYS_link, "old", name);
    if (!strcmp(call, "linkat")) return file("old"), syscall(SYS_linkat, AT_FDCWD, "old", AT_FDCWD, name, 0);
    if (!strcmp(call, "symlink")) return syscall(SYS_symlink, "/etc/passwd", name);
    if (!strcmp(call, "symlinkat")) return syscall(SYS_symlinkat, "/etc/passwd", AT_FDCWD, name);
    if (!strcmp(call, "bind")) return bound(name);
    if (!strcmp(call, "bind-absolute")) return bound(below(cwd));
    if (!strcmp(call, "bind-proc-fd")) {
        char own[64];
        snprintf(own, sizeof own, "/proc/self/fd/%d", open(".", O_RDONLY));
        return bound(below(own));
    }
    if (!strcmp(call, "thread-open")) {
        pthread_t thread;
        long result = -1;
        pthread_create(&thread, NULL, in_thread, &result);
        pthread_join(thread, NULL);
        return result < 0 ? (errno = (int)-result, -1) : 0;
    }
    if (!strcmp(call, "vfork-mkdir")) {
        volatile int error = 0;
        pid_t child = vfork();
        if (child == 0) {
            if (syscall(SYS_mkdir, name, 0755)) error = errno;
            _exit(0);
        }
        waitpid(child, NULL, 0);
        return error ? (errno = error, -1) : 0;
    }
    fprintf(stderr, "no such call: %s\n", call);
    exit(2);
}

int main(int argc, char **argv) {
    name = argv[2];
    getcwd(cwd, sizeof cwd);
    errno = 0;
    if (done(argv[1]) >= 0) return puts("MADE"), 0;
    puts(errno == EPERM ? "EPERM" : strerror(errno));
    return 0;
}
