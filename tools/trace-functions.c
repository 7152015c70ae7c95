/* Prints the functions of a program in the order in which a run first enters them, each process after the one that started it.
 *
 *   trace-functions SYMBOLS PROGRAM COMMAND...
 *
 * SYMBOLS is what `nm -n PROGRAM` prints; COMMAND executes PROGRAM, perhaps as another user. PROGRAM closes its memory, so this needs root.
 *
 * Every function begins with a breakpoint, which is taken out of a process when it is met there. Processes that the program makes are
 * copies with the same breakpoints; what they execute has none. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FUNCTIONS = 200000, MOST_PROCESSES = 64 };
static unsigned long start[MOST_FUNCTIONS];
static char *name[MOST_FUNCTIONS];
static int functions;
static int seen_by[MOST_FUNCTIONS]; /* the process that entered it first, from 1 */
static int entered_at[MOST_FUNCTIONS];
static pid_t process[MOST_PROCESSES];
static int processes;
static unsigned long base;

static void fail(const char *what) { perror(what); exit(1); }

static void read_symbols(const char *path) {
    FILE *list = fopen(path, "r");
    char line[16384], kind;
    if (!list) fail(path);
    while (fgets(line, sizeof line, list) && functions < MOST_FUNCTIONS) {
        unsigned long address;
        int at;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%lx %c %n", &address, &kind, &at) != 2 || !strchr("tTwW", kind)) continue;
        start[functions] = address;
        name[functions++] = strdup(line + at);
    }
    fclose(list);
}

/* The function that begins at an address, or -1. */
static int function_at(unsigned long address) {
    int low = 0, high = functions;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (start[middle] <= address) low = middle; else high = middle;
    }
    while (low > 0 && start[low - 1] == address) low--;
    return functions && start[low] == address ? low : -1;
}

/* Where the program lies in memory, if this process has executed it; it may be loaded anywhere. */
static void find_base(pid_t pid, const char *program) {
    char path[64], line[4096], own[4096];
    if (!realpath(program, own)) fail(program);
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    if (!maps) fail(path);
    while (!base && fgets(line, sizeof line, maps)) {
        if (strstr(line, own)) base = strtoul(line, NULL, 16);
    }
    fclose(maps);
}

static int memory_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0) fail(path);
    return memory;
}

static unsigned char *original;

static void set_breakpoints(pid_t pid) {
    int memory = memory_of(pid);
    original = malloc(functions);
    for (int at = 0; at < functions; at++) {
        unsigned char breakpoint = 0xCC;
        if (at && start[at] == start[at - 1]) { original[at] = original[at - 1]; continue; }
        if (pread(memory, &original[at], 1, base + start[at]) != 1) fail("pread");
        if (pwrite(memory, &breakpoint, 1, base + start[at]) != 1) fail("pwrite");
    }
    close(memory);
}

static int number_of(pid_t pid) {
    for (int at = 0; at < processes; at++) if (process[at] == pid) return at + 1;
    if (processes == MOST_PROCESSES) { fprintf(stderr, "too many processes\n"); exit(1); }
    process[processes++] = pid;
    return processes;
}

static int clock_now;

/* Whether the process stands behind a breakpoint of ours: then it goes on as if there had been none. */
static int met_breakpoint(pid_t pid) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) < 0) return 0;
    int at = function_at(registers.rip - 1 - base);
    if (at < 0) return 0;
    if (!seen_by[at]) { seen_by[at] = number_of(pid); entered_at[at] = clock_now++; }
    int memory = memory_of(pid);
    if (pwrite(memory, &original[at], 1, base + start[at]) != 1) fail("pwrite");
    close(memory);
    registers.rip--;
    return ptrace(PTRACE_SETREGS, pid, 0, &registers) == 0;
}

int main(int count, char **words) {
    if (count < 4) { fprintf(stderr, "usage: trace-functions SYMBOLS PROGRAM COMMAND...\n"); return 2; }
    read_symbols(words[1]);
    pid_t first = fork();
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(words[3], words + 3);
        _exit(127);
    }
    int state, code = 1, begun = 0;
    if (waitpid(first, &state, 0) < 0) fail("waitpid");
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
    if (ptrace(PTRACE_SETOPTIONS, first, 0, options) < 0) fail("PTRACE_SETOPTIONS");
    ptrace(PTRACE_CONT, first, 0, 0);
    for (;;) {
        pid_t pid = waitpid(-1, &state, __WALL);
        if (pid < 0) break;
        if (!WIFSTOPPED(state)) {
            if (pid == first) code = WIFEXITED(state) ? WEXITSTATUS(state) : 1;
            continue;
        }
        int signal = WSTOPSIG(state), event = state >> 16;
        if (event == PTRACE_EVENT_EXEC) {
            if (begun) { ptrace(PTRACE_DETACH, pid, 0, 0); continue; }
            find_base(pid, words[2]);
            if (base) { begun = 1; set_breakpoints(pid); }
        }
        /* The first stop of a new process, and stops of ours. */
        if (event || signal == SIGSTOP || (signal == SIGTRAP && met_breakpoint(pid))) signal = 0;
        ptrace(PTRACE_CONT, pid, 0, signal);
    }
    for (int by = 1; by <= processes; by++)
        for (int now = 0; now < clock_now; now++)
            for (int at = 0; at < functions; at++)
                if (seen_by[at] == by && entered_at[at] == now) { puts(name[at]); break; }
    return code;
}
