/* Measures commands against each other: each round spawns every command once, in another order, so that whatever else the machine does
 * falls on all of them alike. Prints one line per command. Never judges a time.
 *
 * The kernel takes a network namespace down after its last process has gone. A pause before each spawn keeps that work out of the next
 * measurement; INTERLEAVE_PAUSE sets it in microseconds, 0 measures one right after the other.
 *
 *   interleave ROUNDS LABEL [NAME=VALUE…] PROGRAM [ARGUMENT…] -- LABEL … -- …
 *   interleave ROUNDS @FILE        one command per line, its words separated by tabs; for long lines, and for words that are `--`
 *
 * Commands start with the harness's directory and environment, in which NAME=VALUE replaces what was there; streams at /dev/null.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_COMMANDS = 32 };

struct command {
    const char *label;
    char **argv;
    char **environment;
    double *microseconds;
    long peak_kib;
    long faults;
};

extern char **environ;
static struct command commands[MOST_COMMANDS];
static int count;
static posix_spawn_file_actions_t streams;
static posix_spawnattr_t attributes;

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "interleave: %s: %s\n", what, why);
    exit(2);
}

static void set(char **environment, char *entry) {
    size_t name = (size_t)(strchr(entry, '=') - entry) + 1;
    while (*environment && strncmp(*environment, entry, name)) environment++;
    *environment = entry;
}

static void add(char **words) {
    if (count == MOST_COMMANDS) give_up("too many commands", words[0]);
    if (!words[0]) give_up("a command needs", "a label");
    struct command command = {.label = *words++};
    size_t variables = 0, own = 0;
    while (environ[variables]) variables++;
    while (words[own] && strchr(words[own], '=')) own++;
    command.environment = calloc(variables + own + 1, sizeof(char *));
    if (!command.environment) give_up("memory", strerror(errno));
    memcpy(command.environment, environ, variables * sizeof(char *));
    for (size_t i = 0; i < own; i++) set(command.environment, words[i]);
    command.argv = words + own;
    if (!*command.argv) give_up("a command needs a program", command.label);
    commands[count++] = command;
}

static void read_arguments(char **words) {
    char **start = words;
    for (; *words; words++) {
        if (strcmp(*words, "--") == 0) {
            *words = NULL;
            add(start);
            start = words + 1;
        }
    }
    add(start);
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) give_up(path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n') line[--length] = 0;
        if (!length || *line == '#') continue;
        char *copy = strdup(line);
        size_t words = 2;
        for (char *c = copy; *c; c++) words += *c == '\t';
        char **list = calloc(words, sizeof *list);
        if (!copy || !list) give_up(path, strerror(errno));
        size_t place = 0;
        for (char *word; (word = strsep(&copy, "\t"));) list[place++] = word;
        add(list);
    }
    free(line);
    fclose(file);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double spawn(struct command *command) {
    pid_t child;
    int status;
    struct rusage usage;
    double before = now();
    int error = posix_spawnp(&child, command->argv[0], &streams, &attributes, command->argv, command->environment);
    if (error) give_up(command->argv[0], strerror(error));
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR) give_up("wait4", strerror(errno));
    double after = now();
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fprintf(stderr, "interleave: %s ended with status %#x; a failed run is no measurement\n", command->label, status);
        exit(1);
    }
    if (usage.ru_maxrss > command->peak_kib) command->peak_kib = usage.ru_maxrss;
    command->faults = usage.ru_minflt;
    return after - before;
}

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    if (argc < 3) give_up("usage", "interleave ROUNDS (@FILE | LABEL PROGRAM [ARGUMENT…] [-- …])");
    int rounds = atoi(argv[1]);
    if (rounds < 1) give_up("not a number of rounds", argv[1]);
    /* Read before the commands copy the environment. */
    const char *wish = getenv("INTERLEAVE_PAUSE");
    useconds_t pause = wish ? (useconds_t)atoi(wish) : 3000;
    unsetenv("INTERLEAVE_PAUSE");
    if (argv[2][0] == '@') read_file(argv[2] + 1);
    else read_arguments(argv + 2);

    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&streams, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&streams, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);

    int warm_up = rounds / 10 + 3;
    int order[MOST_COMMANDS];
    srandom(1);
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = 0; i < count; i++) {
        commands[i].microseconds = calloc((size_t)rounds, sizeof(double));
        if (!commands[i].microseconds) give_up("memory", strerror(errno));
    }
    for (int round = -warm_up; round < rounds; round++) {
        for (int i = count - 1; i > 0; i--) {
            int other = (int)(random() % (i + 1)), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int i = 0; i < count; i++) {
            if (pause) usleep(pause);
            double took = spawn(&commands[order[i]]);
            if (round >= 0) commands[order[i]].microseconds[round] = took;
        }
    }

    double first_mean = 0, first_median = 0;
    printf("%-22s %9s %9s %9s %9s %8s %8s %9s %7s\n", "command", "mean µs", "median", "p10", "p90", "×mean", "×median", "peak KiB", "faults");
    for (int i = 0; i < count; i++) {
        double *all = commands[i].microseconds, sum = 0;
        qsort(all, (size_t)rounds, sizeof *all, ascending);
        for (int round = 0; round < rounds; round++) sum += all[round];
        double mean = sum / rounds, median = all[rounds / 2];
        if (i == 0) {
            first_mean = mean;
            first_median = median;
        }
        printf("%-22s %8.0f %9.0f %9.0f %9.0f %8.2f %8.2f %9ld %7ld\n", commands[i].label, mean, median, all[rounds / 10],
               all[rounds * 9 / 10], mean / first_mean, median / first_median, commands[i].peak_kib, commands[i].faults);
    }
    return 0;
}
