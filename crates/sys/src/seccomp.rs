//! The seccomp filter: compiled from a list of rules, installed for good.
//!
//! The assembler is our own, because each rule has its own answer and its own argument tests, and because entry through another
//! architecture (32-bit, x32) must be closed as well; the crates of this field give one answer per filter and leave x32 open.

use crate::{Errno, checked};
use libc::sock_filter;
use rustix::fd::{FromRawFd, OwnedFd};

/// The errno a refused call gets.
pub type ErrnoNumber = u16;

/// A test on one argument: on its lower half, except for pointers.
#[derive(Clone, Copy, Debug)]
pub enum Test<'a> {
    Has {
        arg: u8,
        bits: u32,
    },
    Lacks {
        arg: u8,
        bits: u32,
    },
    Is {
        arg: u8,
        value: u32,
    },
    IsNone {
        arg: u8,
        values: &'a [u32],
    },
    /// A pointer that is not null: either half is set.
    NotNull {
        arg: u8,
    },
}

/// One syscall, answered by us when all tests hold.
pub struct Refusal<'a> {
    pub number: u32,
    pub when: Vec<Test<'a>>,
    pub answer: Answer,
}

/// What such a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Errno(ErrnoNumber),
    /// What the listener of the filter says; ENOSYS when there is none.
    Listener,
}

impl Answer {
    fn action(self) -> u32 {
        match self {
            Answer::Errno(errno) => ERRNO | u32::from(errno),
            Answer::Listener => NOTIFY,
        }
    }
}

/// A filter that is ready to be installed.
pub struct Filter(Vec<sock_filter>);

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_BITS: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const NOTIFY: u32 = 0x7fc0_0000;

const NEW_LISTENER: libc::c_ulong = 1 << 3;
/// Once the listener has taken a call, only a deadly signal ends the wait for it: a call that was done already must not start again.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// The first syscall that nobody here has judged (`open_tree_attr`). Numbers are the same on all architectures from 424 on.
const FIRST_UNKNOWN: u32 = 467;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

const fn op(code: u16, yes: u8, no: u8, k: u32) -> sock_filter {
    sock_filter { code, jt: yes, jf: no, k }
}

/// Little-endian machines keep the lower half of an argument first.
fn argument(arg: u8) -> u32 {
    16 + 8 * u32::from(arg)
}

fn upper_half(arg: u8) -> u32 {
    argument(arg) + 4
}

impl Filter {
    /// Compiles a filter: refusals of the same number are tried in order, and what none of them refuses is allowed.
    pub fn compile(refusals: &[Refusal<'_>]) -> Result<Self, Errno> {
        let mut program = vec![
            op(LOAD, 0, 0, OFFSET_ARCH),
            op(JUMP_EQUAL, 1, 0, ARCH),
            // Another architecture's table has other numbers: nothing of it is answered.
            op(RETURN, 0, 0, ERRNO | libc::ENOSYS as u32),
            op(LOAD, 0, 0, OFFSET_NUMBER),
            // What came after this list, and everything of the x32 table, is not there: programs fall back.
            op(JUMP_AT_LEAST, 0, 1, FIRST_UNKNOWN),
            op(RETURN, 0, 0, ERRNO | libc::ENOSYS as u32),
        ];
        // One block per number. They are searched like a tree, because the kernel walks the filter once for every syscall there is when it
        // installs it, and once per call for those whose arguments count.
        let mut blocks: Vec<(u32, Vec<sock_filter>)> = Vec::with_capacity(refusals.len());
        for refusal in refusals {
            let place = match blocks.binary_search_by_key(&refusal.number, |block| block.0) {
                Ok(place) => place,
                Err(place) => {
                    blocks.insert(place, (refusal.number, Vec::new()));
                    place
                }
            };
            append_refusal(&mut blocks[place].1, refusal)?;
        }
        append_search(&mut program, &blocks)?;
        if program.len() > 4096 { Err(Errno::INVAL) } else { Ok(Filter(program)) }
    }

    /// Installs it for this process and all it starts. Needs `no_new_privs`.
    pub fn install(&self) -> Result<(), Errno> {
        self.install_with(0).map(drop)
    }

    /// The same; gives the side that is asked. Closed on exec.
    pub fn install_listening(&self) -> Result<OwnedFd, Errno> {
        let listener = self.install_with(NEW_LISTENER | WAIT_KILLABLE)?;
        let listener = i32::try_from(listener).map_err(|_| Errno::BADF)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(listener) })
    }

    fn install_with(&self, flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
        const SECCOMP_SET_MODE_FILTER: libc::c_uint = 1;
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(|_| Errno::INVAL)?,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: `program` points to `len` instructions that live until the call returns; the kernel copies them.
        let result =
            unsafe { libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
        checked(result)
    }
}

/// Appends a search for the number that is loaded: every way through ends in an answer.
fn append_search(program: &mut Vec<sock_filter>, blocks: &[(u32, Vec<sock_filter>)]) -> Result<(), Errno> {
    match blocks {
        [] => program.push(op(RETURN, 0, 0, ALLOW)),
        [(number, block)] => {
            program.push(op(JUMP_EQUAL, 1, 0, *number));
            program.push(op(RETURN, 0, 0, ALLOW));
            program.extend_from_slice(block);
            program.push(op(RETURN, 0, 0, ALLOW));
        }
        _ => {
            let (lower, upper) = blocks.split_at(blocks.len() / 2);
            let mut below = Vec::new();
            append_search(&mut below, lower)?;
            // A conditional jump reaches 255 instructions; the upper half may lie further away.
            program.push(op(JUMP_AT_LEAST, 0, 1, upper[0].0));
            program.push(op(JUMP, 0, 0, u32::try_from(below.len()).map_err(|_| Errno::INVAL)?));
            program.append(&mut below);
            append_search(program, upper)?;
        }
    }
    Ok(())
}

/// Appends "if all tests hold, answer"; otherwise falls through to what follows.
fn append_refusal(block: &mut Vec<sock_filter>, refusal: &Refusal<'_>) -> Result<(), Errno> {
    // Instructions of the tests behind the current one, plus the return, are what a failing test jumps over.
    let lengths: Vec<usize> = refusal.when.iter().map(test_length).collect();
    for (index, test) in refusal.when.iter().enumerate() {
        let rest: usize = lengths[index + 1..].iter().sum::<usize>() + 1;
        let over = |own: usize| u8::try_from(rest + own).map_err(|_| Errno::INVAL);
        match *test {
            Test::Has { arg, bits } => {
                block.push(op(LOAD, 0, 0, argument(arg)));
                block.push(op(JUMP_BITS, 0, over(0)?, bits));
            }
            Test::Lacks { arg, bits } => {
                block.push(op(LOAD, 0, 0, argument(arg)));
                block.push(op(JUMP_BITS, over(0)?, 0, bits));
            }
            Test::Is { arg, value } => {
                block.push(op(LOAD, 0, 0, argument(arg)));
                block.push(op(JUMP_EQUAL, 0, over(0)?, value));
            }
            Test::IsNone { arg, values } => {
                block.push(op(LOAD, 0, 0, argument(arg)));
                for (position, value) in values.iter().enumerate() {
                    block.push(op(JUMP_EQUAL, over(values.len() - position - 1)?, 0, *value));
                }
            }
            Test::NotNull { arg } => {
                block.push(op(LOAD, 0, 0, upper_half(arg)));
                // Something in the upper half is enough: over the two instructions that look at the lower one.
                block.push(op(JUMP_EQUAL, 0, 2, 0));
                block.push(op(LOAD, 0, 0, argument(arg)));
                block.push(op(JUMP_EQUAL, over(0)?, 0, 0));
            }
        }
    }
    block.push(op(RETURN, 0, 0, refusal.answer.action()));
    Ok(())
}

fn test_length(test: &Test<'_>) -> usize {
    match test {
        Test::Has { .. } | Test::Lacks { .. } | Test::Is { .. } => 2,
        Test::IsNone { values, .. } => 1 + values.len(),
        Test::NotNull { .. } => 4,
    }
}

/// Numbers of the syscalls that rules name. A name this architecture does not have gives `None`.
pub fn number(name: &str) -> Option<u32> {
    macro_rules! numbers {
        ($($name:ident = $constant:ident),* $(,)?) => {
            match name { $(stringify!($name) => Some(libc::$constant), )* _ => legacy(name) }
        };
    }
    let number = numbers! {
        openat = SYS_openat, ioctl = SYS_ioctl, clone = SYS_clone, clone3 = SYS_clone3, unshare = SYS_unshare, setns = SYS_setns,
        openat2 = SYS_openat2, socket = SYS_socket, socketpair = SYS_socketpair, prctl = SYS_prctl, fchmod = SYS_fchmod, fchmodat = SYS_fchmodat,
        fchmodat2 = SYS_fchmodat2, mknodat = SYS_mknodat, ptrace = SYS_ptrace, process_vm_readv = SYS_process_vm_readv,
        process_vm_writev = SYS_process_vm_writev, kcmp = SYS_kcmp, pidfd_getfd = SYS_pidfd_getfd,
        process_madvise = SYS_process_madvise, keyctl = SYS_keyctl, add_key = SYS_add_key, request_key = SYS_request_key,
        io_uring_setup = SYS_io_uring_setup, io_uring_enter = SYS_io_uring_enter, io_uring_register = SYS_io_uring_register,
        bpf = SYS_bpf, perf_event_open = SYS_perf_event_open, userfaultfd = SYS_userfaultfd, mount = SYS_mount,
        umount2 = SYS_umount2, pivot_root = SYS_pivot_root, chroot = SYS_chroot, open_tree = SYS_open_tree,
        move_mount = SYS_move_mount, fsopen = SYS_fsopen, fsconfig = SYS_fsconfig, fsmount = SYS_fsmount, fspick = SYS_fspick,
        mount_setattr = SYS_mount_setattr, open_by_handle_at = SYS_open_by_handle_at, name_to_handle_at = SYS_name_to_handle_at,
        init_module = SYS_init_module, finit_module = SYS_finit_module, delete_module = SYS_delete_module,
        kexec_load = SYS_kexec_load, kexec_file_load = SYS_kexec_file_load, reboot = SYS_reboot, swapon = SYS_swapon,
        swapoff = SYS_swapoff, acct = SYS_acct, quotactl = SYS_quotactl, quotactl_fd = SYS_quotactl_fd, syslog = SYS_syslog,
        vhangup = SYS_vhangup, sethostname = SYS_sethostname, setdomainname = SYS_setdomainname,
        settimeofday = SYS_settimeofday, clock_settime = SYS_clock_settime, clock_adjtime = SYS_clock_adjtime,
        adjtimex = SYS_adjtimex, fanotify_init = SYS_fanotify_init, memfd_secret = SYS_memfd_secret,
        personality = SYS_personality, prlimit64 = SYS_prlimit64, fchownat = SYS_fchownat, setxattr = SYS_setxattr,
        mkdirat = SYS_mkdirat, renameat = SYS_renameat, renameat2 = SYS_renameat2, linkat = SYS_linkat, symlinkat = SYS_symlinkat,
        bind = SYS_bind, seccomp = SYS_seccomp, landlock_create_ruleset = SYS_landlock_create_ruleset,
        landlock_add_rule = SYS_landlock_add_rule, landlock_restrict_self = SYS_landlock_restrict_self,
        lsetxattr = SYS_lsetxattr, removexattr = SYS_removexattr, lremovexattr = SYS_lremovexattr,
        fsetxattr = SYS_fsetxattr, fremovexattr = SYS_fremovexattr, fchown = SYS_fchown, utimensat = SYS_utimensat,
        connect = SYS_connect, truncate = SYS_truncate, sched_setscheduler = SYS_sched_setscheduler,
        sched_setparam = SYS_sched_setparam, sched_setattr = SYS_sched_setattr, sched_setaffinity = SYS_sched_setaffinity,
        setpriority = SYS_setpriority, setpgid = SYS_setpgid,
    };
    // Newer than the C library's own list; the same on all architectures.
    let newer = match name {
        "setxattrat" => Some(463),
        "removexattrat" => Some(466),
        _ => None,
    };
    newer.or_else(|| number.and_then(|number| u32::try_from(number).ok()))
}

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
fn legacy(name: &str) -> Option<libc::c_long> {
    Some(match name {
        "open" => libc::SYS_open,
        "creat" => libc::SYS_creat,
        "chmod" => libc::SYS_chmod,
        "mknod" => libc::SYS_mknod,
        "mkdir" => libc::SYS_mkdir,
        "rename" => libc::SYS_rename,
        "link" => libc::SYS_link,
        "symlink" => libc::SYS_symlink,
        "chown" => libc::SYS_chown,
        "lchown" => libc::SYS_lchown,
        "utime" => libc::SYS_utime,
        "utimes" => libc::SYS_utimes,
        "futimesat" => libc::SYS_futimesat,
        "iopl" => libc::SYS_iopl,
        "ioperm" => libc::SYS_ioperm,
        "modify_ldt" => libc::SYS_modify_ldt,
        "lookup_dcookie" => libc::SYS_lookup_dcookie,
        "nfsservctl" => libc::SYS_nfsservctl,
        "uselib" => libc::SYS_uselib,
        "ustat" => libc::SYS_ustat,
        "sysfs" => libc::SYS_sysfs,
        "_sysctl" => libc::SYS__sysctl,
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn legacy(_name: &str) -> Option<libc::c_long> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    fn answer(filter: &Filter, arch: u32, number: u32, arguments: [u32; 6]) -> u32 {
        answer_to(filter, arch, number, arguments.map(u64::from))
    }

    /// The same for arguments whose upper half counts.
    fn answer_to(filter: &Filter, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let (mut place, mut loaded) = (0, 0);
        loop {
            let step = filter.0[place];
            place += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        OFFSET_NUMBER => number,
                        OFFSET_ARCH => arch,
                        offset => {
                            let argument = arguments[(offset as usize - 16) / 8];
                            let half = if offset % 8 == 4 { argument >> 32 } else { argument & 0xffff_ffff };
                            u32::try_from(half).unwrap()
                        }
                    }
                }
                JUMP => place += step.k as usize,
                RETURN => return step.k,
                code => {
                    let holds = match code {
                        JUMP_EQUAL => loaded == step.k,
                        JUMP_AT_LEAST => loaded >= step.k,
                        JUMP_BITS => loaded & step.k != 0,
                        _ => panic!("unknown instruction {code}"),
                    };
                    place += usize::from(if holds { step.jt } else { step.jf });
                }
            }
        }
    }

    fn refusal(number: u32, when: Vec<Test<'static>>, errno: u16) -> Refusal<'static> {
        Refusal { number, when, answer: Answer::Errno(errno) }
    }

    #[test]
    fn every_number_meets_its_own_rules_and_no_other() {
        let refusals: Vec<_> =
            (0..100).map(|n| refusal(n * 5, vec![], u16::try_from(n + 1).unwrap())).collect();
        let filter = Filter::compile(&refusals).unwrap();
        for number in 0..FIRST_UNKNOWN {
            let expected = if number % 5 == 0 && number < 500 { ERRNO | (number / 5 + 1) } else { ALLOW };
            assert_eq!(answer(&filter, ARCH, number, [0; 6]), expected, "{number}");
        }
    }

    #[test]
    fn all_tests_of_a_rule_must_hold_and_the_first_rule_that_does_decides() {
        let filter = Filter::compile(&[
            refusal(7, vec![Test::Is { arg: 0, value: 16 }, Test::IsNone { arg: 2, values: &[0, 4] }], 1),
            refusal(7, vec![Test::IsNone { arg: 0, values: &[1, 2, 16] }], 2),
            refusal(7, vec![Test::Has { arg: 1, bits: 0x30 }], 3),
        ])
        .unwrap();
        let ask = |a, b, c| answer(&filter, ARCH, 7, [a, b, c, 0, 0, 0]);
        assert_eq!(ask(16, 0, 9), ERRNO | 1);
        assert_eq!(ask(16, 0, 4), ALLOW);
        assert_eq!(ask(3, 0, 0), ERRNO | 2);
        assert_eq!(ask(1, 0x10, 0), ERRNO | 3);
        assert_eq!(ask(1, 0x40, 0), ALLOW);
    }

    #[test]
    fn a_pointer_is_null_only_if_both_halves_are() {
        let when = vec![Test::NotNull { arg: 2 }, Test::IsNone { arg: 0, values: &[0] }];
        let filter =
            Filter::compile(&[refusal(7, when, 1), refusal(7, vec![Test::Is { arg: 1, value: 9 }], 2)]);
        let filter = filter.unwrap();
        let ask = |pid, other, pointer| answer_to(&filter, ARCH, 7, [pid, other, pointer, 0, 0, 0]);
        for pointer in [1, 0x7fff_1234_5678, 0x7f00_0000_0000, u64::MAX] {
            assert_eq!(ask(5, 0, pointer), ERRNO | 1, "{pointer:x}");
            assert_eq!(ask(0, 0, pointer), ALLOW, "{pointer:x}");
        }
        assert_eq!(ask(5, 0, 0), ALLOW);
        assert_eq!(ask(5, 9, 0), ERRNO | 2);
    }

    #[test]
    fn what_is_not_refused_at_once_may_be_asked_about() {
        let when = vec![Test::Has { arg: 1, bits: 4 }, Test::Lacks { arg: 1, bits: 8 }];
        let asked = Refusal { number: 7, when, answer: Answer::Listener };
        let filter = Filter::compile(&[refusal(7, vec![Test::Has { arg: 1, bits: 1 }], 1), asked]).unwrap();
        assert_eq!(answer(&filter, ARCH, 7, [0, 5, 0, 0, 0, 0]), ERRNO | 1);
        assert_eq!(answer(&filter, ARCH, 7, [0, 4, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(answer(&filter, ARCH, 7, [0, 2, 0, 0, 0, 0]), ALLOW);
        assert_eq!(answer(&filter, ARCH, 7, [0, 12, 0, 0, 0, 0]), ALLOW);
    }

    #[test]
    fn other_entries_into_the_kernel_are_answered_with_enosys() {
        let filter = Filter::compile(&[refusal(7, vec![], 1)]).unwrap();
        let enosys = ERRNO | libc::ENOSYS as u32;
        assert_eq!(answer(&filter, 0x4000_0003, 1, [0; 6]), enosys);
        assert_eq!(answer(&filter, ARCH, 0x4000_0001, [0; 6]), enosys);
        assert_eq!(answer(&filter, ARCH, FIRST_UNKNOWN, [0; 6]), enosys);
        assert_eq!(answer(&filter, ARCH, 1, [0; 6]), ALLOW);
    }
}
