//! Which system calls a program may make.
//!
//! Four filters, of which the strictest answer holds: calls of the other ABI of x86-64 are refused,
//! calls that we do not know do not exist, socket families beyond the plain ones are not supported,
//! and what is dangerous is not permitted.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

/// Which sockets a program may open. Pairs of connected ones are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Families {
    /// The namespaces bound where they lead.
    UnixAndInet,
    /// A granted folder may hold sockets of the host, and reading is enough to connect to one.
    InetOnly,
    /// There are no namespaces.
    None,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters, ready to be installed: making them takes longer than a program takes to start.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// `cgroup`: memory that no process has mapped is counted as well.
    pub(super) fn new(cgroup: bool) -> io::Result<Self> {
        make(cgroup).map(Self).map_err(|error| failed(&*error))
    }

    /// Installs them for this process and all it starts.
    pub(super) fn install(&self, families: Families) -> io::Result<()> {
        let sockets = odd_sockets(families).map_err(|error| failed(&error))?;
        let sockets = refuse(sockets, libc::EAFNOSUPPORT).map_err(|error| failed(&*error))?;
        let all = self.0.iter().chain([&sockets]);
        all.into_iter().try_for_each(|filter| apply_filter(filter)).map_err(|error| failed(&error))
    }
}

fn failed(error: &dyn std::error::Error) -> io::Error {
    io::Error::other(format!("seccomp: {error}"))
}

fn make(cgroup: bool) -> Result<Vec<BpfProgram>, Box<dyn std::error::Error>> {
    let known: Rules = known_calls(cgroup).into_iter().map(|call| (call, Vec::new())).collect();
    Ok(vec![
        filter(known, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)?,
        refuse(dangerous()?, libc::EPERM)?,
        only_this_abi(),
    ])
}

fn refuse(rules: Rules, errno: i32) -> Result<BpfProgram, Box<dyn std::error::Error>> {
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32))
}

fn filter(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, matched, architecture)?.try_into()?)
}

/// x32 calls have the numbers of others with one bit set, which the crate does not look at.
fn only_this_abi() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let load_number = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let is_x32 = sock_filter { code: 0x45, jt: 0, jf: 1, k: X32_BIT };
    let answer = |k| sock_filter { code: 0x06, jt: 0, jf: 0, k };
    vec![
        load_number,
        is_x32,
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

/// Condition on the low half of an argument: the kernel ignores the high half where it takes an int.
fn low(index: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

fn odd_sockets(families: Families) -> Result<Rules, seccompiler::BackendError> {
    let plain: &[i32] = match families {
        Families::UnixAndInet => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6],
        Families::InetOnly => &[libc::AF_INET, libc::AF_INET6],
        Families::None => &[],
    };
    let but = |plain: &[i32]| {
        let others = plain.iter().map(|family| low(0, SeccompCmpOp::Ne, *family as u64));
        match plain.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?]),
        }
    };
    Ok([(libc::SYS_socket, but(plain)?), (libc::SYS_socketpair, but(&[libc::AF_UNIX])?)].into())
}

fn dangerous() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = DANGEROUS.iter().map(|call| (*call, Vec::new())).collect();
    // New namespaces would bring capabilities back. `clone3` hides its flags and is unknown.
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let clone = namespaces.iter().map(|flag| {
        let flag = *flag as u64;
        SeccompRule::new(vec![low(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    rules.insert(libc::SYS_clone, clone.collect::<Result<_, _>>()?);
    // What is typed into a terminal is run by the program that reads it.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX];
    let ioctl = typing.iter().map(|call| SeccompRule::new(vec![low(1, SeccompCmpOp::Eq, *call)?]));
    rules.insert(libc::SYS_ioctl, ioctl.collect::<Result<_, _>>()?);
    // Huge pages that the host keeps for its own programs count in no limit of a box.
    let huge = |at: u8, flag: u64| SeccompRule::new(vec![low(at, SeccompCmpOp::MaskedEq(flag), flag)?]);
    rules.insert(libc::SYS_mmap, vec![huge(3, libc::MAP_HUGETLB as u64)?]);
    rules.insert(libc::SYS_memfd_create, vec![huge(1, u64::from(libc::MFD_HUGETLB))?]);
    // Set-user-id would do nothing here, and would do something on a granted folder outside.
    let bits = [libc::S_ISUID as u64, libc::S_ISGID as u64];
    let has = |at: u8, bits: u64| low(at, SeccompCmpOp::MaskedEq(bits), bits);
    for (call, mode_at) in modes() {
        let set = bits.iter().map(|bit| SeccompRule::new(vec![has(mode_at, *bit)?]));
        rules.insert(call, set.collect::<Result<_, _>>()?);
    }
    // The mode means something only where a file is made.
    let makes = [libc::O_CREAT as u64, libc::O_TMPFILE as u64];
    for (call, flags_at) in opens() {
        let pairs = makes.iter().flat_map(|make| bits.iter().map(move |bit| (*make, *bit)));
        let set =
            pairs.map(|(make, bit)| SeccompRule::new(vec![has(flags_at, make)?, has(flags_at + 1, bit)?]));
        rules.insert(call, set.collect::<Result<_, _>>()?);
    }
    // Process 1 of the box is not the program's to slow down.
    for (call, pid_at) in ABOUT_OTHERS {
        rules.insert(call, vec![SeccompRule::new(vec![low(pid_at, SeccompCmpOp::Eq, 1)?])?]);
    }
    Ok(rules)
}

/// Calls that set limits or the schedule of another process, and which argument names it.
const ABOUT_OTHERS: [(i64, u8); 7] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Calls that open a file and may make it, and which argument holds the flags; the mode follows.
fn opens() -> Vec<(i64, u8)> {
    #[cfg(target_arch = "x86_64")]
    return vec![(libc::SYS_open, 1), (libc::SYS_openat, 2)];
    #[cfg(not(target_arch = "x86_64"))]
    vec![(libc::SYS_openat, 2)]
}

/// Calls that set the mode of a file, and which argument that is.
fn modes() -> Vec<(i64, u8)> {
    let mut calls = vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2)];
    #[cfg(target_arch = "x86_64")]
    calls.extend([(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mkdir, 1), (libc::SYS_mknod, 1)]);
    calls.append(&mut vec![(libc::SYS_mkdirat, 2), (libc::SYS_mknodat, 2)]);
    calls
}

/// Not permitted, and said so: programs that can do without notice at once.
const DANGEROUS: [i64; 32] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_open_by_handle_at,
    libc::SYS_userfaultfd,
    libc::SYS_pidfd_getfd,
];

/// Every call that exists for a program, besides the dangerous ones, which are refused by name.
fn known_calls(cgroup: bool) -> Vec<i64> {
    let mut calls = Vec::from(ORDINARY);
    calls.extend(DANGEROUS);
    #[cfg(target_arch = "x86_64")]
    calls.extend(OLDER);
    if cgroup {
        // Its pages belong to no process, so only a cgroup counts them.
        calls.push(libc::SYS_memfd_create);
    }
    calls
}

/// What ordinary programs use, compilers, interpreters and browsers among them. Not `openat2`, which
/// hides its mode; programs do without.
const ORDINARY: [i64; 219] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_connect,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_flock,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_getxattr,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_ioctl,
    libc::SYS_ioprio_get,
    libc::SYS_ioprio_set,
    libc::SYS_kill,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_lgetxattr,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lseek,
    libc::SYS_lsetxattr,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_munmap,
    libc::SYS_name_to_handle_at,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_personality,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pipe2,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_process_madvise,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_removexattr,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_seccomp,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setitimer,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setrlimit,
    libc::SYS_setsid,
    libc::SYS_setsockopt,
    libc::SYS_setuid,
    libc::SYS_setxattr,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_sync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_sysinfo,
    libc::SYS_tee,
    libc::SYS_tgkill,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
    libc::SYS_tkill,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLDER: [i64; 36] = [
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_fork,
    libc::SYS_futimesat,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_inotify_init,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_signalfd,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_vfork,
];
