// One client that holds the door of a session open: how long a command takes through it, beside a plain spawn of the same.
//
//   door FOLDER ROUNDS [fresh [PAUSE-MS]]
//   door FOLDER cold FLOOR      the first fresh cage of a session, beside FLOOR /bin/true; prints both times in microseconds
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static int fail(const char *what) {
    perror(what);
    exit(1);
}

static void spawn(char **argv) {
    char *envp[] = {NULL};
    pid_t child;
    int status;
    if (posix_spawn(&child, argv[0], NULL, NULL, argv, envp) || waitpid(child, &status, 0) != child || status) fail("spawn");
}

static void plain(void) {
    spawn((char *[]){"/bin/true", NULL});
}

static void through(int door, int null, const char *ask) {
    struct iovec part = {(void *)ask, strlen(ask)};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(3 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    int streams[3] = {null, null, null};
    memcpy(CMSG_DATA(&control.head), streams, sizeof streams);
    if (sendmsg(door, &message, 0) < 0) fail("send");
    for (;;) {
        char answer[4096];
        ssize_t length = recv(door, answer, sizeof answer - 1, 0);
        if (length <= 0) fail("receive");
        answer[length] = 0;
        if (strstr(answer, "\"ended\"")) return;
        if (strstr(answer, "\"refused\"")) { fprintf(stderr, "%s\n", answer); exit(1); }
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int rounds = atoi(argv[2]), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *ask = argc > 3 ? "{\"v\":1,\"do\":\"exec\",\"argv\":[\"/bin/true\"],\"fresh\":true}" : "{\"v\":1,\"do\":\"exec\",\"argv\":[\"/bin/true\"]}";
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (chdir(argv[1])) fail(argv[1]);
    strcpy(address.sun_path, "door");
    if (connect(door, (struct sockaddr *)&address, sizeof address)) fail("connect");
    if (!strcmp(argv[2], "cold")) {
        char *floor[] = {argv[3], "/bin/true", NULL};
        spawn(floor);
        usleep(20000);
        double start = now();
        spawn(floor);
        double middle = now();
        usleep(20000);
        double again = now();
        through(door, null, ask);
        printf("%.0f %.0f\n", middle - start, now() - again);
        return 0;
    }
    double *spawned = calloc(rounds, sizeof *spawned), *passed = calloc(rounds, sizeof *passed);
    for (int round = -20; round < rounds; round++) {
        if (argc > 4) usleep(atoi(argv[4]) * 1000);
        double start = now();
        plain();
        double middle = now();
        through(door, null, ask);
        double end = now();
        if (round >= 0) spawned[round] = middle - start, passed[round] = end - middle;
    }
    qsort(spawned, rounds, sizeof *spawned, by_size);
    qsort(passed, rounds, sizeof *passed, by_size);
    printf("plain %.0f µs, through the door %.0f µs (medians): %.2f\n", spawned[rounds / 2], passed[rounds / 2], passed[rounds / 2] / spawned[rounds / 2]);
    return 0;
}
