//! More programs that try to get out, to stay, or to take what is not theirs: rarer ways than those in
//! `hostile`. None may have an effect outside of its box, and none may hold up who started it.

use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use helve_sandbox::{CollectLimits, End, Level, collect};

use crate::boxes::{LONG, expected_level, python, run_job, said, sh, text};
use crate::hostile::{CALLS, dies, is_alive, nothing_works};

#[tokio::test]
async fn rare_calls_are_refused() {
    nothing_works(
        r#"
refused("process_vm_writev", 311, 1, 0, 0, 0, 0, 0)
refused("fanotify_init", 300, 0, 0)
refused("fspick", 433, -100, b"/", 0)
refused("fsconfig", 431, -1, 6, 0, 0, 0)
refused("open_tree_attr", 467, -100, b"/usr", 1, 0, 0)
refused("kexec_file_load", 320, -1, -1, 0, 0, 0)
refused("io_uring_enter", 426, 0, 0, 0, 0, 0, 0)
refused("io_uring_register", 427, 0, 0, 0, 0)
refused("clock_settime", 227, 0, (ctypes.c_long * 2)(1, 0))
refused("adjtimex", 159, bytes(256))
refused("modify_ldt", 154, 1, bytes(16), 16)
refused("vhangup", 153)
refused("migrate_pages", 256, 1, 0, 0, 0)
refused("move_pages", 279, 1, 0, 0, 0, 0, 0)
refused("lookup_dcookie", 212, 0, bytes(16), 16)
refused("memfd_secret", 447, 0)
refused("process_mrelease", 448, 0, 0)
refused("landlock off", 446, -1, 0)
# An old kernel takes these, and does nothing: were process 1 to end, so would this.
for number, args in ((234, (1, 1, 9)), (200, (1, 9)), (129, (1, 9, bytes(128))), (424, (os.pidfd_open(1), 9, 0, 0))): call(number, *args)
perf = (ctypes.c_uint32 * 32)(1, 128)
for pid in (0, 1, -1): refused(f"perf {pid}", 298, perf, pid, -1 if pid >= 0 else 0, -1, 0)
handle = (ctypes.c_uint32 * 34)(128); mount = (ctypes.c_int * 1)()
call(303, -100, b"/usr/bin", handle, mount, 0)
refused("handle", 304, os.open("/", os.O_RDONLY), handle, 0)
"#,
    )
    .await;
}

/// They are counted in no limit, and belong to programs of the host that have asked for them.
#[tokio::test]
async fn huge_pages_of_the_host_stay_its_own() {
    let script = format!(
        r#"{CALLS}
print(errno.errorcode.get(call(9, 0, 2 << 20, 3, 0x40022, -1, 0)), errno.errorcode.get(call(319, b"x", 4)))
import mmap; mmap.mmap(-1, 4 << 20)
"#
    );
    let said = said(&run_job(python(&script)).await);
    assert!(["EPERM EPERM", "EPERM ENOSYS"].contains(&said.as_str()), "{said}");
}

/// A limit of none at all would still let the kernel pipe a dump to a program that the host runs as root.
#[tokio::test]
async fn a_crash_leaves_no_dump() {
    let script = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))";
    assert_eq!(said(&run_job(python(script)).await), "(1, 1)");
    let finished = run_job(sh("sh -c 'kill -SEGV $$'; ls -A")).await;
    assert_eq!(said(&finished), "");
}

#[tokio::test]
async fn a_program_from_memory_is_as_confined_as_one_from_a_file() {
    let script = format!(
        r#"{CALLS}
if call(319, b"x", 0) == errno.ENOSYS: print("refused"); sys.exit()
fd = os.memfd_create("x"); os.write(fd, open("/bin/sh", "rb").read())
os.execve(fd, ["sh", "-c", "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status; unshare -U true 2>/dev/null && echo WORKED"], {{"PATH": "/usr/bin"}})
"#
    );
    let out = text(&run_job(python(&script)).await.stdout);
    let confined = out.contains("Seccomp:\t2")
        && out.contains("NoNewPrivs:\t1")
        && out.contains("CapEff:\t0000000000000000");
    assert!(out.trim() == "refused" || confined && !out.contains("WORKED"), "{out}");
}

#[tokio::test]
async fn it_starts_with_nothing_of_ours() {
    let script = r#"
import os, signal, resource
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
print(status["SigBlk"], status["SigIgn"], status["CapBnd"], status["Seccomp"].strip(), status["NoNewPrivs"])
print(sorted(os.listdir("/proc/self/task"))[0] == str(os.getpid()), os.getsid(0) == os.getpid())
print(signal.getitimer(signal.ITIMER_REAL), len(os.environ))
"#;
    // Python itself ignores SIGPIPE and SIGXFSZ and sets LC_CTYPE, and the C library ignores two of its own.
    let expected = "0000000000000000 0000000181001000 0000000000000000 2 1\nTrue True\n(0.0, 0.0) 2";
    assert_eq!(said(&run_job(python(script)).await), expected);
}

/// Some users may have their programs run before all others. Means most where the tests have these rights, as in
/// `scripts/test-cgroup2.sh`.
#[tokio::test]
async fn nothing_in_a_box_runs_before_others() {
    let script = r#"
import os, resource
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE): print(resource.getrlimit(limit))
for do in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)):
    try: do(); print("WORKED")
    except OSError: print("refused")
"#;
    assert_eq!(said(&run_job(python(script)).await), "(0, 0)\n(0, 0)\nrefused\nrefused");
}

/// Runs a box in a copy of this test program that is in more groups than its own.
#[tokio::test]
async fn helper_in_many_groups() {
    if std::env::var("HELVE_TEST_GROUPS").is_ok() {
        assert_eq!(said(&run_job(sh("grep ^Groups: /proc/self/status | tr -d ' \\t'")).await), "Groups:");
    }
}

/// What belongs to groups that Helve's user is in would be open to a box.
#[tokio::test]
async fn root_hands_no_groups_on() {
    if !rustix::process::getuid().is_root() {
        // Nobody else can leave a group.
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "the test needs a Helve in other groups")]
    let ended = std::process::Command::new("setpriv")
        .args(["--groups=0,4", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attacks::helper_in_many_groups"])
        .env("HELVE_TEST_GROUPS", "1")
        .output()
        .unwrap();
    // A helper of another name would be no test at all, and that is a success, too.
    let said = text(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

/// The kernel spares a keeper when memory runs out; what it starts is to go first instead.
#[tokio::test]
async fn a_box_goes_first_when_memory_runs_out() {
    assert_eq!(said(&run_job(sh("cat /proc/self/oom_score_adj")).await), "1000");
}

#[tokio::test]
async fn processes_that_nobody_waits_for_are_reaped_and_counted() {
    // Without an end in sight, they would be as many as the box may have and no more.
    let script = r#"
import os, time
made = 0
for _ in range(500):
    try:
        if os.fork() == 0:
            try: os.fork()
            except OSError: pass
            os._exit(0)
        made += 1
    except OSError:
        time.sleep(0.01)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]: pass
        except ChildProcessError: pass
print(made > 100)
"#;
    let mut job = python(script);
    job.policy.limits.pids = 24;
    assert_eq!(said(&run_job(job).await), "True");
}

/// Many that live shorter than our looks at them, and whose time the kernel does not add up.
#[tokio::test]
async fn time_on_a_processor_is_bounded_for_short_lives_too() {
    let script = r#"
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            end = time.process_time() + 0.004
            while time.process_time() < end: pass
            os._exit(0)
    except OSError: pass
    time.sleep(0.003)
"#;
    let mut job = python(script);
    // A machine that builds meanwhile gives these children a fiftieth of a processor: the wall is far away.
    (job.policy.limits.cpu_s, job.policy.limits.wall_ms) = (1, 240_000);
    let finished = run_job(job).await;
    assert_eq!(finished.end, End::CpuLimit, "{:?}", finished.usage);
}

#[tokio::test]
async fn odd_files_in_the_work_directory_are_left_there() {
    let script = r#"
import os, socket
os.mkfifo("fifo"); os.symlink("/etc/passwd", "link"); os.symlink("..", "up"); os.symlink("loop", "loop")
socket.socket(socket.AF_UNIX).bind("socket")
with open("sparse", "wb") as f: f.truncate(1 << 60)
with open("hole", "wb") as f: f.truncate(4 << 20)
for n in range(20): os.link("hole", f"hard{n}")
os.mkdir("locked"); open("locked/x", "w").close(); os.chmod("locked", 0)
open("secret", "w").close(); os.chmod("secret", 0)
open(b"\xff\xfe \n\x1b[2J", "w").close()
open("n" * 255, "w").close()
deep = os.open(".", os.O_RDONLY)
for _ in range(300):
    os.mkdir("d", dir_fd=deep); inner = os.open("d", os.O_RDONLY, dir_fd=deep); os.close(deep); deep = inner
open("plain", "w").write("plain")
"#;
    let mut job = python(script);
    job.policy.limits.work_bytes = 64 << 20;
    let finished = run_job(job).await;
    said(&finished);
    let limits = CollectLimits { files: 100, file_bytes: 8 << 20, total_bytes: 16 << 20 };
    let (files, left_out) = collect(finished.work_dir.as_fd(), limits, &|_| true).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
    for odd in ["fifo", "link", "socket", "up", "loop"] {
        assert!(!names.iter().any(|name| name == odd), "{names:?}");
        assert!(left_out.paths.iter().any(|path| path.to_str() == Some(odd)), "{left_out:?}");
    }
    let is_deep = |path: &std::path::PathBuf| path.starts_with("d/d/d");
    assert!(left_out.paths.iter().any(is_deep), "the deep folders were not all seen: {left_out:?}");
    let content = |name: &str| files.iter().find(|file| file.path.to_str() == Some(name)).unwrap();
    assert_eq!(content("plain").content.as_deref(), Some(b"plain".as_slice()));
    assert_eq!((content("sparse").bytes, &content("sparse").content), (1 << 60, &None));
    let taken: usize = files.iter().filter_map(|file| file.content.as_ref()).map(Vec::len).sum();
    assert!(taken <= 16 << 20, "{taken}");
}

/// What a program leaves in a folder that it may write to is there for others to stumble over; it may make
/// no devices, and links in it lead nowhere while it runs.
#[tokio::test]
async fn what_is_left_in_a_granted_folder_is_harmless_to_us() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"
import os, stat
os.chdir("{folder}")
os.mkfifo("fifo"); os.symlink("{secret}", "link"); os.symlink("/proc/self/root{secret}", "root"); os.symlink("/proc/1/root{secret}", "one")
for name in ("link", "root", "one", "/proc/self/root{secret}", "/proc/self/cwd/../{secret}", "/proc/thread-self/root/..{secret}"):
    try: print(open(name).read(), "WORKED")
    except OSError as e: print(e.errno)
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    try: os.mknod(f"device{{kind}}", kind | 0o666, os.makedev(1, 5)); print("mknod WORKED")
    except OSError as e: print(e.errno)
for source in ("/proc/self/exe", "/usr/bin/env", "/etc/passwd"):
    try: os.link(source, "hard", follow_symlinks=True); print("link WORKED")
    except OSError as e: print(e.errno)
"#,
        folder = folder.path().display(),
        secret = secret.display()
    );
    let mut job = python(&script);
    job.policy.write = vec![folder.path().to_owned()];
    let said = said(&run_job(job).await);
    assert!(!said.contains("WORKED") && !said.contains("s3cret"), "{said}");
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let kind = std::fs::symlink_metadata(entry.path()).unwrap();
        assert!(!kind.file_type().is_char_device() && !kind.file_type().is_block_device());
        assert_eq!(kind.mode() & 0o6000, 0);
    }
}

#[tokio::test]
async fn who_holds_a_stream_open_holds_up_nobody() {
    let marker = format!("85{:07}", std::process::id());
    let began = std::time::Instant::now();
    let mut job = sh(&format!("setsid setsid sleep {marker} & echo done"));
    job.policy.limits.wall_ms = 60_000;
    assert_eq!(said(&run_job(job).await), "done");
    assert!(began.elapsed() < LONG);
    dies(&marker).await;
}

#[tokio::test]
async fn signals_reach_nobody_outside() {
    let marker = format!("84{:07}", std::process::id());
    let witness = tokio::spawn(run_job(sh(&format!("exec sleep {marker}"))));
    let script = r#"
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
own = os.getpid()
for pid in list(range(2, 70000)):
    if pid == own: continue
    try: os.kill(pid, signal.SIGKILL); print(pid, "WORKED")
    except OSError: pass
try: os.kill(-1, signal.SIGTERM)
except OSError: pass
for group in (0, 1):
    try: os.killpg(group, signal.SIGCONT)
    except OSError: pass
print("tried", os.getppid())
"#;
    let out = said(&run_job(python(script)).await);
    assert_eq!(out, "tried 1");
    assert!(!witness.is_finished(), "another box was hit");
    witness.abort();
    let _ = tokio::time::timeout(Duration::from_secs(1), witness).await;
    dies(&marker).await;
}

#[tokio::test]
async fn boxes_do_not_see_each_other() {
    let first = "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0helve-x'); s.listen()\nt = socket.create_server(('127.0.0.1', 4567))\nopen('/tmp/mine', 'w'); open('/dev/shm/mine', 'w'); time.sleep(3)\nprint('all was there until the end')";
    let first = tokio::spawn(run_job(python(first)));
    let script = r#"
import os, socket, time
for _ in range(20):
    for family, address in ((socket.AF_UNIX, "\0helve-x"), (socket.AF_INET, ("127.0.0.1", 4567))):
        try: socket.socket(family).connect(address); print("WORKED")
        except OSError: pass
    for path in ("/tmp/mine", "/dev/shm/mine"):
        if os.path.exists(path): print(path, "WORKED")
    time.sleep(0.1)
print(len([p for p in os.listdir("/proc") if p.isdigit()]))
"#;
    assert_eq!(said(&run_job(python(script)).await), "2");
    assert_eq!(said(&first.await.unwrap()), "all was there until the end");
}

/// The groups of a launcher, wherever this host keeps groups.
fn groups_of(launcher: &str) -> Vec<std::path::PathBuf> {
    fn look(folder: &std::path::Path, name: &str, depth: u32, found: &mut Vec<std::path::PathBuf>) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name() == name {
                found.push(entry.path());
            } else if depth > 0 {
                look(&entry.path(), name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    look(std::path::Path::new("/sys/fs/cgroup"), &format!("helve-{launcher}"), 5, &mut found);
    found
}

#[tokio::test]
async fn no_cgroup_outlives_a_helve_that_was_killed() {
    let marker = format!("83{:07}", std::process::id());
    #[expect(clippy::disallowed_methods, reason = "the test needs a Helve to kill")]
    let mut helve = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::helper_that_is_killed"])
        .env("HELVE_TEST_MARKER", &marker)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    while !is_alive(&marker) {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", helve.id())).unwrap().flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap());
    let launcher = children.collect::<String>().trim().to_owned();
    // Who has no groups here leaves none.
    assert_eq!(groups_of(&launcher).is_empty(), expected_level() < Level::L3);
    helve.kill().unwrap();
    helve.wait().unwrap();
    dies(&marker).await;
    let began = std::time::Instant::now();
    while !groups_of(&launcher).is_empty() {
        assert!(began.elapsed() < LONG, "{:?}", groups_of(&launcher));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
