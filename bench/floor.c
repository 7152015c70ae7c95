/* The floor: what the kernel takes for the cage itself. The same namespaces, view, Landlock rules, filter length and init as Keyward, as
 * bare system calls on constant tables. It reads no policy, decides nothing, records nothing, checks nothing twice: no launcher can be
 * faster without leaving out a wall.
 *
 * `view.h` is made by `bench/run` from the plan that Keyward explains, so that both build the same thing.
 *
 *   floor PROGRAM [ARGUMENT…]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { FOLDER, PLACE, LINK, READ_ONLY, WRITABLE, PRIVATE, DEVICE, TERMINALS, PROC, HIDDEN_FOLDER, HIDDEN_FILE };

/* `at` is absolute; without its first byte it is relative to the new root. */
struct act {
    enum kind kind;
    const char *at;
    const char *from;
    mode_t mode;
};

static const struct act acts[] = {
#define VIEW
#include "view.h"
#undef VIEW
};

static char *const environment[] = {
#define ENVIRONMENT
#include "view.h"
#undef ENVIRONMENT
    NULL,
};

static const char cwd[] =
#define DIRECTORY
#include "view.h"
#undef DIRECTORY
    ;

/* As many instructions as Keyward's filter has for a plain run; `strace -e seccomp` shows the number. */
#ifndef INSTRUCTIONS
#define INSTRUCTIONS 358
#endif

#define MUST(call)                                                              \
    do {                                                                        \
        if ((call) < 0) {                                                       \
            dprintf(2, "floor: %s: %s\n", #call, strerror(errno));              \
            _exit(125);                                                         \
        }                                                                       \
    } while (0)

static struct sock_filter filter[INSTRUCTIONS];

static int filled;

static void put(struct sock_filter instruction) { filter[filled++] = instruction; }

/* A search tree over `count` numbers from `first` on, that ends in a return for each. */
static void put_tree(unsigned first, unsigned count) {
    if (count == 1) {
        put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 0, 1));
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        return;
    }
    unsigned low = count / 2;
    put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first + low, 0, 1));
    int jump = filled++;
    put_tree(first, low);
    filter[jump] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (unsigned)(filled - jump - 1));
    put_tree(first + low, count - low);
}

/* The kernel walks a filter once for every system call there is when it is installed, so its shape counts as much as its length: a tree
 * is the cheapest. The numbers are of no kernel, so that every program runs. */
static void write_filter(void) {
    put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    put_tree(100000, (INSTRUCTIONS - 2 + 2) / 5);
    while (filled < INSTRUCTIONS) put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static void write_file(const char *path, const char *text, size_t length) {
    int file;
    MUST(file = open(path, O_WRONLY | O_CLOEXEC));
    MUST(write(file, text, length));
    close(file);
}

static void restrict_mount(const char *at, unsigned flags, uint64_t attributes) {
    struct mount_attr attr = {.attr_set = attributes | MOUNT_ATTR_NOSUID};
    MUST(syscall(SYS_mount_setattr, AT_FDCWD, at, flags, &attr, sizeof attr));
}

static void make_file(const char *at) {
    int file;
    MUST(file = open(at, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0));
    close(file);
}

static void bind_mount(const char *from, const char *at) { MUST(mount(from, at, NULL, MS_BIND | MS_REC, NULL)); }

static void build_view(void) {
    int masks = 0;
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"));
    MUST(chdir("/proc"));
    umask(0);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        const struct act *act = &acts[i];
        const char *at = act->at + 1;
        switch (act->kind) {
        case FOLDER: MUST(mkdir(at, act->mode)); break;
        case PLACE: make_file(at); break;
        case LINK: MUST(symlink(act->from, at)); break;
        case READ_ONLY:
            bind_mount(act->from, at);
            restrict_mount(at, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
            break;
        case WRITABLE:
            bind_mount(act->from, at);
            restrict_mount(at, AT_RECURSIVE, MOUNT_ATTR_NODEV);
            break;
        case PRIVATE: bind_mount(at, at); break;
        case DEVICE: bind_mount(act->at, at); break;
        case TERMINALS:
            MUST(mount("devpts", at, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"));
            break;
        case PROC: MUST(mount("proc", at, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)); break;
        case HIDDEN_FOLDER:
        case HIDDEN_FILE:
            if (!masks++) {
                make_file(".masked-file");
                MUST(mkdir(".masked-folder", 0));
            }
            bind_mount(act->kind == HIDDEN_FILE ? ".masked-file" : ".masked-folder", at);
            restrict_mount(at, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
            break;
        }
    }
    if (masks) {
        MUST(unlink(".masked-file"));
        MUST(rmdir(".masked-folder"));
    }
    restrict_mount(".", 0, MOUNT_ATTR_RDONLY);
    MUST(syscall(SYS_pivot_root, ".", "."));
    MUST(umount2(".", MNT_DETACH));
    MUST(chdir("/"));
}

/* Rights of Landlock's ABI 5: those of the file system, without the network. */
enum {
    ALL = (1 << 16) - 1,
    READ = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    USE = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | 1 << 14 | 1 << 15,
};

static void allow(int ruleset, const char *path, uint64_t access) {
    int parent;
    MUST(parent = open(path, O_PATH | O_CLOEXEC));
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = parent};
    MUST(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    close(parent);
}

static int write_rules(void) {
    int ruleset;
    struct landlock_ruleset_attr attr = {.handled_access_fs = ALL};
    MUST(ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0));
    allow(ruleset, "/", READ);
    allow(ruleset, "/dev", USE);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (acts[i].kind == PRIVATE || acts[i].kind == WRITABLE) allow(ruleset, acts[i].at, ALL);
    return ruleset;
}

static void drop_capabilities(void) {
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int number = 0; prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0; number++) {}
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    MUST(syscall(SYS_capset, &header, none));
}

static void become_command(int ruleset, char **argv) {
    struct rlimit no_core = {0, 0};
    MUST(setrlimit(RLIMIT_CORE, &no_core));
    MUST(chdir(cwd));
    MUST(syscall(SYS_landlock_restrict_self, ruleset, 0));
    MUST(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC));
    umask(022);
    struct sock_fprog program = {.len = INSTRUCTIONS, .filter = filter};
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    execve(argv[0], argv, environment);
    dprintf(2, "floor: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/* PID 1. */
static void inhabit(const char *uid_map, int uid_length, const char *gid_map, int gid_length, char **argv) {
    MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
    write_file("/proc/self/setgroups", "deny", 4);
    write_file("/proc/self/uid_map", uid_map, (size_t)uid_length);
    write_file("/proc/self/gid_map", gid_map, (size_t)gid_length);
    MUST(prctl(PR_SET_DUMPABLE, 0));
    MUST(setsid());
    int loopback;
    MUST(loopback = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    MUST(ioctl(loopback, SIOCSIFFLAGS, &up));
    close(loopback);
    build_view();
    int ruleset = write_rules();
    MUST(syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL));
    drop_capabilities();
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    pid_t command;
    MUST(command = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0));
    if (command == 0) become_command(ruleset, argv);
    int status;
    for (pid_t ended; (ended = wait(&status)) != command;)
        if (ended < 0) _exit(125);
    _exit(code_of(status));
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char uid_map[32], gid_map[32];
    int uid_length = snprintf(uid_map, sizeof uid_map, "%u %u 1\n", geteuid(), geteuid());
    int gid_length = snprintf(gid_map, sizeof gid_map, "%u %u 1\n", getegid(), getegid());
    write_filter();
    long flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP | SIGCHLD;
    pid_t init;
    MUST(init = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, 0));
    if (init == 0) inhabit(uid_map, uid_length, gid_map, gid_length, argv + 1);
    int status;
    MUST(waitpid(init, &status, 0));
    return code_of(status);
}
