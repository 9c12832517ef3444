//! Programs that try to get out, to stay, or to take everything. Each runs as the user of the tests:
//! CI runs them as root and as a plain user.

use std::time::Instant;

use helve_sandbox::{End, Job, Sandbox};
use rustix::process::{Pid, test_kill_process};
use tokio_util::sync::CancellationToken;

use crate::boxes::{LONG, python, run_job, said, sh, text};

/// Python that calls the kernel directly: `call(number, ...)` gives the errno, or 0.
pub(crate) const CALLS: &str = r#"
import ctypes, os, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[a if isinstance(a, (ctypes.Array, bytes)) else ctypes.c_long(a) for a in args])
    return ctypes.get_errno() if result < 0 else 0
def refused(name, number, *args):
    code = call(number, *args)
    print(name, errno.errorcode.get(code, "WORKED"))
"#;

/// Runs Python and expects no line to say that something worked.
pub(crate) async fn nothing_works(script: &str) {
    let out = said(&run_job(python(&format!("{CALLS}\n{script}"))).await);
    assert!(!out.is_empty(), "it tried nothing");
    let worked: Vec<_> = out.lines().filter(|line| line.contains("WORKED")).collect();
    assert!(worked.is_empty(), "{worked:?}");
}

#[tokio::test]
async fn no_way_to_new_rights() {
    nothing_works(
        r#"
refused("unshare user", 272, 0x10000000)
refused("unshare mount", 272, 0x00020000)
refused("unshare net", 272, 0x40000000)
refused("setns", 308, 0, 0)
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000):
    refused(f"clone {flag:x}", 56, flag | 17, 0, 0, 0, 0)
args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
refused("clone3", 435, args, 88)
refused("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
refused("umount", 166, b"/usr", 2)
refused("pivot_root", 155, b"/", b"/tmp")
refused("chroot", 161, b"/tmp")
refused("open_tree", 428, -100, b"/usr", 1)
refused("fsopen", 430, b"tmpfs", 0)
refused("move_mount", 429, -100, b"/usr", -100, b"/tmp", 0)
refused("mount_setattr", 442, -100, b"/usr", 0, 0, 0)
refused("bpf", 321, 0, 0, 0)
refused("perf_event_open", 298, 0, 0, 0, 0, 0)
refused("keyctl", 250, 0, 0)
refused("add_key", 248, b"user", b"x", b"y", 1, -3)
refused("io_uring_setup", 425, 8, 0)
refused("userfaultfd", 323, 0)
refused("open_by_handle_at", 304, -100, 0, 0)
refused("kexec_load", 246, 0, 0, 0, 0)
refused("init_module", 175, 0, 0, 0)
refused("reboot", 169, 0, 0, 0, 0)
refused("swapon", 167, b"/tmp/x", 0)
refused("sethostname", 170, b"x", 1)
refused("settimeofday", 164, 0, 0)
refused("iopl", 172, 3)
refused("quotactl", 179, 0, 0, 0, 0)
refused("shmget", 29, 0, 4096, 0o1600)
refused("mq_open", 240, b"x", 0o102, 0o600, 0)
refused("x32 getpid", 0x40000000 | 39)
refused("x32 ptrace", 0x40000000 | 521, 0, 0, 0, 0)
try:
    os.setuid(0 if os.getuid() else 1000); print("setuid WORKED")
except OSError as e: print("setuid", e.errno)
"#,
    )
    .await;
}

#[tokio::test]
async fn the_other_abi_ends_the_program() {
    // int 0x80 from a 64-bit program: the filter sees another architecture.
    let script = r#"
import mmap, ctypes
m = mmap.mmap(-1, 4096, prot=7); m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))(), "WORKED")
"#;
    let finished = run_job(python(script)).await;
    assert!(!text(&finished.stdout).contains("WORKED"), "{:?}", finished.end);
}

#[tokio::test]
async fn no_way_into_other_processes() {
    nothing_works(
        r#"
refused("ptrace attach 1", 101, 16, 1, 0, 0)
refused("ptrace traceme", 101, 0, 0, 0, 0)
refused("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
refused("pidfd_getfd", 438, 3, 0, 0)
refused("kill 1", 62, 1, 9)
refused("prlimit 1", 302, 1, 7, (ctypes.c_uint64 * 2)(0, 0), 0)
refused("affinity 1", 203, 1, 8, (ctypes.c_uint64 * 1)(1))
refused("scheduler 1", 144, 1, 5, (ctypes.c_int * 1)(0))
refused("nice 1", 141, 0, 1, 19)
refused("kcmp", 312, 1, 1, 0, 0, 0)
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/root/etc", "/proc/1/fd/0", "/proc/1/cwd", "/proc/1/maps",
             "/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/proc/sysrq-trigger", "/dev/tty", "/dev/ptmx"):
    try:
        f = os.open(path, os.O_RDONLY); data = os.read(f, 100); print(path, "WORKED" if data else "empty")
    except OSError as e: print(path, errno.errorcode[e.errno])
for path in ("/proc/1/mem", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/self/uid_map",
             "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/self/oom_score_adj"):
    try:
        f = os.open(path, os.O_WRONLY); os.write(f, b"1"); print(path, "WORKED")
    except OSError as e: print(path, errno.errorcode[e.errno])
if "Seccomp:\t2" not in open("/proc/self/status").read(): print("seccomp off WORKED")
"#,
    )
    .await;
}

#[tokio::test]
async fn files_of_the_host_are_not_there() {
    let paths = [
        "/root",
        "/home",
        "/etc/shadow",
        "/etc/ssh",
        "/var",
        "/run",
        "/srv",
        "/mnt",
        "/boot",
        "/sys",
        "/opt",
        env!("CARGO_MANIFEST_DIR"),
        "/etc/sudoers",
        "/dev/vda",
        "/dev/sda",
        "/usr/../root",
        "/box/../root",
        "/etc/ssl/private",
    ];
    for path in paths {
        let script = format!("ls {path} >/dev/null 2>&1 && echo visible || echo hidden");
        assert_eq!(said(&run_job(sh(&script)).await), "hidden", "{path}");
    }
}

#[tokio::test]
async fn what_is_read_only_stays_so() {
    nothing_works(
        r#"
for path in ("/usr/bin/x", "/etc/passwd", "/bin/x", "/x", "/dev/x", "/proc/x", "/usr/bin/python3", "/etc/x", "/lib/x"):
    try: os.open(path, os.O_WRONLY | os.O_CREAT); print(path, "WORKED")
    except OSError as e: print(path, errno.errorcode[e.errno])
for what, do in (("rm", lambda: os.unlink("/usr/bin/env")), ("mkdir", lambda: os.mkdir("/usr/x")),
                 ("chmod", lambda: os.chmod("/usr/bin/env", 0o777)), ("utime", lambda: os.utime("/usr/bin/env")),
                 ("xattr", lambda: os.setxattr("/usr/bin/env", "user.x", b"1")), ("link", lambda: os.link("/usr/bin/env", "/box/env")),
                 ("rename", lambda: os.rename("/usr/bin/env", "/usr/bin/env2")), ("truncate", lambda: os.truncate("/etc/passwd", 0)),
                 ("mknod", lambda: os.mknod("/box/disk", 0o60600, os.makedev(254, 0))), ("setuid bit", lambda: os.chmod("/box", 0o4755)),
                 ("device", lambda: os.mknod("/tmp/null", 0o20666, os.makedev(1, 3)))):
    try: do(); print(what, "WORKED")
    except OSError as e: print(what, errno.errorcode[e.errno])
"#,
    )
    .await;
}

#[tokio::test]
async fn sockets_lead_nowhere() {
    nothing_works(
        r#"
import socket
families = dict(INET_RAW=(2, 3), NETLINK=(16, 3), PACKET=(17, 3), VSOCK=(40, 1), ALG=(38, 5), BLUETOOTH=(31, 3), CAN=(29, 3),
                XDP=(44, 3), RDS=(21, 5), TIPC=(30, 1), KCM=(41, 2), SMC=(43, 1), QIPCRTR=(42, 2), AX25=(3, 5), X25=(9, 5))
for name, (family, kind) in families.items(): refused("socket " + name, 41, family, kind, 0)
refused("socketpair NETLINK", 53, 16, 3, 0, (ctypes.c_int * 2)())
for address in (("1.1.1.1", 53), ("8.8.8.8", 443), ("169.254.169.254", 80), ("10.0.0.1", 80), ("192.168.0.1", 80)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET, kind); s.settimeout(2)
        try: s.connect(address); print(address, "WORKED")
        except OSError as e: print(address, e)
try: s = socket.socket(socket.AF_INET6); s.settimeout(2); s.connect(("2606:4700::1111", 80)); print("v6 WORKED")
except OSError as e: print("v6", e)
try: print(socket.getaddrinfo("example.com", 80), "WORKED")
except OSError as e: print("dns", e)
"#,
    )
    .await;
}

#[tokio::test]
async fn servers_of_the_host_cannot_be_reached() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let abstract_name = format!("helve-test-{port}");
    let address = <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
        &abstract_name,
    );
    let _abstract_listener = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    nothing_works(&format!(
        r#"
import socket
for make in (lambda: socket.create_connection(("127.0.0.1", {port}), 2), lambda: socket.create_connection(("::1", {port}), 2),
             lambda: socket.socket(socket.AF_UNIX).connect("\0{abstract_name}")):
    try: make(); print("WORKED")
    except OSError as e: print(e)
"#
    ))
    .await;
}

#[tokio::test]
async fn nothing_can_be_typed_into_a_terminal() {
    nothing_works(
        r#"
import fcntl
for request in (0x5412, 0x5412 | 1 << 32, 0x541C):
    refused("ioctl", 16, 0, request, b"x")
"#,
    )
    .await;
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ends() {
    let mut job = python("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass");
    (job.policy.limits.pids, job.policy.limits.wall_ms) = (32, 1500);
    let finished = run_job(job).await;
    assert_eq!(finished.end, End::Timeout);
    nobody_is_left().await;
}

#[tokio::test]
async fn processes_and_threads_are_counted_together() {
    let script = r#"
import os, threading, time
count = 0
try:
    while count < 500:
        if os.fork() == 0: time.sleep(60)
        count += 1
except OSError: pass
print(count)
"#;
    let mut job = python(script);
    job.policy.limits.pids = 20;
    let forked: u32 = said(&run_job(job).await).parse().unwrap();
    assert!((10..=20).contains(&forked), "{forked}");
    let script = r#"
import threading, time
count = 0
try:
    while count < 500: threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); count += 1
except RuntimeError: pass
print(count, flush=True)
import os; os._exit(0)
"#;
    let mut job = python(script);
    job.policy.limits.pids = 20;
    let started: u32 = said(&run_job(job).await).parse().unwrap();
    assert!((10..=20).contains(&started), "{started}");
}

#[tokio::test]
async fn memory_in_every_form_is_bounded() {
    let forms = [
        ("one block", "x = bytearray(1 << 30); x[::4096] = b'1' * len(x[::4096])"),
        ("many blocks", "x = [bytearray(b'1' * (1 << 20)) for _ in range(1024)]"),
        ("shared", "import mmap\nx = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1"),
        (
            "many processes",
            "import os, time\nfor _ in range(10):\n  if os.fork() == 0:\n    x = bytearray(b'1' * (100 << 20)); time.sleep(60)\ntime.sleep(60)",
        ),
        (
            "a daemon",
            "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: x = bytearray(b'1' * (1 << 30))\n  time.sleep(60)\ntime.sleep(60)",
        ),
        (
            "unmapped",
            "import os, time\nfds = []\nwhile len(fds) < 1024:\n  f = os.memfd_create('x'); os.write(f, b'1' * (1 << 20)); fds.append(f)\nprint('WORKED')",
        ),
        (
            "huge pages",
            "import mmap\nx = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nx.madvise(14)\nfor i in range(0, 1 << 30, 4096): x[i] = 1",
        ),
    ];
    for (form, script) in forms {
        let mut job = python(&format!("{script}\nprint('WORKED')"));
        (job.policy.limits.memory_bytes, job.policy.limits.wall_ms) = (200 << 20, 30_000);
        let finished = run_job(job).await;
        let ended = format!("{form}: {:?} {}", finished.end, text(&finished.stderr));
        assert!(!text(&finished.stdout).contains("WORKED"), "{ended}");
        // Refused outright is as good as stopped.
        let refused = text(&finished.stderr).contains("Error");
        assert!(finished.end == End::MemoryLimit || refused, "{ended}");
    }
}

#[tokio::test]
async fn files_in_memory_are_bounded() {
    for place in ["/box", "/tmp", "/dev/shm"] {
        let script = format!("dd if=/dev/zero of={place}/x bs=1M count=100 2>/dev/null; wc -c < {place}/x");
        let mut job = sh(&script);
        job.policy.limits.work_bytes = 10 << 20;
        let written: u64 = said(&run_job(job).await).parse().unwrap();
        assert!(written <= 10 << 20, "{place}: {written}");
    }
    let mut job =
        python("n = 0\ntry:\n  while n < 5000: open(f'f{n}', 'w'); n += 1\nexcept OSError: pass\nprint(n)");
    job.policy.limits.work_bytes = 1 << 20;
    assert!(said(&run_job(job).await).parse::<u32>().unwrap() <= 1100);
}

#[tokio::test]
async fn time_on_a_processor_is_bounded() {
    for script in [
        "while True: pass",
        "import os\nfor _ in range(4): os.fork()\nwhile True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    ] {
        let mut job = python(script);
        (job.policy.limits.cpu_s, job.policy.limits.wall_ms) = (1, 60_000);
        let finished = run_job(job).await;
        assert_eq!(finished.end, End::CpuLimit, "{script}");
    }
}

#[tokio::test]
async fn a_flood_of_output_is_cut() {
    for script in ["yes", "yes >&2", "cat /dev/zero", "yes & yes >&2"] {
        let mut job = sh(script);
        job.policy.limits.output_bytes = 10_000;
        let finished = run_job(job).await;
        assert_eq!((finished.end, finished.truncated), (End::OutputLimit, true), "{script}");
        assert!(finished.stdout.len() <= 10_000 && finished.stderr.len() <= 10_000);
    }
}

#[tokio::test]
async fn sockets_in_a_granted_folder_cannot_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let script = format!(
        "import socket\ntry: socket.socket(socket.AF_UNIX).connect('{}'); print('WORKED')\nexcept OSError as e: print(e)",
        path.display()
    );
    for write in [false, true] {
        let mut job = python(&script);
        let grants = if write { &mut job.policy.write } else { &mut job.policy.read };
        grants.push(folder.path().to_owned());
        assert!(!said(&run_job(job).await).contains("WORKED"));
    }
}

#[tokio::test]
async fn no_file_with_set_user_id_is_left_in_a_granted_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{CALLS}
os.chdir("{}")
for n, mode in enumerate((0o4755, 0o2755, 0o6777)):
    for name, number, args in (("open", 2, (os.O_CREAT | os.O_WRONLY, mode)), ("creat", 85, (mode,)), ("mknod", 133, (0o100000 | mode, 0)),
                               ("mkdir", 83, (mode,))):
        refused(name, number, f"{{name}}{{n}}".encode(), *args)
    for name, number, args in (("openat", 257, (os.O_CREAT | os.O_WRONLY, mode)), ("mknodat", 259, (0o100000 | mode, 0)), ("mkdirat", 258, (mode,))):
        refused(name, number, -100, f"{{name}}{{n}}".encode(), *args)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    refused("openat2", 437, -100, f"openat2{{n}}".encode(), how, 24)
    refused("tmpfile", 257, -100, b".", os.O_TMPFILE | os.O_WRONLY, mode)
open("plain", "w").close(); os.chmod("plain", 0o755)
"#,
        folder.path().display()
    );
    let mut job = python(&script);
    job.policy.write = vec![folder.path().to_owned()];
    let out = said(&run_job(job).await);
    assert!(!out.contains("WORKED"), "{out}");
    let modes = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.metadata().unwrap().permissions().mode());
    assert!(modes.collect::<Vec<_>>().iter().all(|mode| mode & 0o6000 == 0));
    assert!(folder.path().join("plain").exists());
}

/// A marker in the command line of a process tells whether it is still there.
pub(crate) fn is_alive(marker: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        // The tests name it, too: as its own argument it is the program.
        line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    })
}

pub(crate) async fn dies(marker: &str) {
    let began = Instant::now();
    while is_alive(marker) {
        assert!(began.elapsed() < LONG, "{marker} lives on");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn nobody_is_left() {
    dies("helve-nobody-marker").await;
}

#[tokio::test]
async fn daemons_end_with_the_program() {
    let marker = format!("86{:07}", std::process::id());
    let hide = format!(
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep {marker} & exec sleep {marker}' >/dev/null 2>&1 &) ; sleep 0.3"
    );
    assert_eq!(said(&run_job(sh(&hide)).await), "");
    dies(&marker).await;
}

#[tokio::test]
async fn a_timeout_ends_what_was_forked_stopped_or_deaf() {
    let marker = format!("87{:07}", std::process::id());
    let script = format!(
        "trap '' TERM; setsid sleep {marker} & sh -c 'kill -STOP $$; sleep {marker}' & sleep {marker}"
    );
    let mut job = sh(&script);
    job.policy.limits.wall_ms = 700;
    assert_eq!(run_job(job).await.end, End::Timeout);
    dies(&marker).await;
}

#[tokio::test]
async fn cancelling_ends_everything() {
    let marker = format!("88{:07}", std::process::id());
    let cancellation = CancellationToken::new();
    let job = sh(&format!("setsid sleep {marker} & sleep {marker}"));
    let running = tokio::spawn({
        let cancellation = cancellation.clone();
        async move { Sandbox::default().run(job, Vec::new(), cancellation).await.unwrap() }
    });
    while !is_alive(&marker) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    cancellation.cancel();
    assert_eq!(running.await.unwrap().end, End::Cancelled);
    dies(&marker).await;
}

#[tokio::test]
async fn dropping_a_box_ends_everything() {
    let marker = format!("89{:07}", std::process::id());
    let sandbox = Sandbox::default();
    let running = sandbox.start(sh(&format!("setsid sleep {marker} & sleep {marker}"))).await.unwrap();
    while !is_alive(&marker) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    drop(running);
    dies(&marker).await;
}

/// Runs the sandbox in a copy of this test program, to be killed.
#[tokio::test]
async fn helper_that_is_killed() {
    if let Ok(marker) = std::env::var("HELVE_TEST_MARKER") {
        let _ = run_job(sh(&format!("setsid sleep {marker} & trap '' TERM HUP; sleep {marker}"))).await;
    }
}

#[tokio::test]
async fn boxes_die_with_helve_however_it_dies() {
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let marker = format!("9{}{:07}", signal.as_raw(), std::process::id());
        #[expect(clippy::disallowed_methods, reason = "the test needs a Helve to kill")]
        let mut helve = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hostile::helper_that_is_killed"])
            .env("HELVE_TEST_MARKER", &marker)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !is_alive(&marker) {
            assert!(began.elapsed() < LONG);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let pid = Pid::from_raw(i32::try_from(helve.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        helve.wait().unwrap();
        assert!(test_kill_process(pid).is_err());
        dies(&marker).await;
    }
}

#[tokio::test]
async fn swapping_links_does_not_lead_out_of_a_grant() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "no").unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let secret = folder.path().join("secret");
    let script = format!(
        "cd {open}; ln -s {secret} l; ln -s .. up; cat l up/secret ../secret 2>/dev/null; \
         ln {secret} hard 2>/dev/null && cat hard; mv up /box/ && cat /box/up/secret 2>/dev/null; echo done",
        open = open.display(),
        secret = secret.display()
    );
    let mut job = sh(&script);
    job.policy.write = vec![open];
    assert_eq!(said(&run_job(job).await), "done");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused_with_the_reason() {
    let start = async |job: Job| Sandbox::default().start(job).await.map(drop).unwrap_err().reason;
    assert!(start(Job::new("no-such-program")).await.contains("no such program in /usr/local/bin"));
    assert!(start(Job::new("/usr")).await.contains("it is not a file"));
    let mut job = sh("true");
    job.work_dir = Some("/nowhere".into());
    assert!(start(job).await.contains("its folder `/nowhere` cannot be entered"));
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(start(Job::new(script)).await.contains("the interpreter that its first line"));
}

#[tokio::test]
async fn a_network_is_refused_without_a_way_out() {
    let mut job = sh("true");
    job.policy.network = vec!["example.com:443".into()];
    let error = Sandbox::default().start(job).await.map(drop).unwrap_err();
    assert!(error.reason.contains("this sandbox has no way out"), "{error}");
}
