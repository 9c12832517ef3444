//! Ordinary programs work in a box as they do outside.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use helve_sandbox::{End, FileIn, Job, Level, Sandbox, SandboxOptions, Unwritable};
use tokio_util::sync::CancellationToken;

use crate::boxes::{expected_level, python, run_job, said, sh, text};

#[tokio::test]
async fn a_program_gets_its_input_and_gives_its_output_and_code() {
    let job = sh("cat; echo \"$1\"; echo bad >&2; exit 3").args(["sh", "a b;$HOME"]);
    let finished = Sandbox::default().run(job, b"in ".to_vec(), CancellationToken::new()).await.unwrap();
    assert_eq!(finished.end, End::Exited { code: 3 });
    assert_eq!((text(&finished.stdout), text(&finished.stderr)), ("in a b;$HOME\n".into(), "bad\n".into()));
    assert_eq!(finished.confinement.level, expected_level());
}

#[tokio::test]
async fn its_environment_and_its_descriptors_are_what_it_is_given() {
    assert_eq!(said(&run_job(Job::new("env").env("ONLY", "this = one")).await).lines().count(), 2);
    // 3 is the listing itself.
    assert_eq!(said(&run_job(sh("ls /proc/self/fd")).await), "0\n1\n2\n3");
}

#[tokio::test]
async fn a_program_may_be_told_by_its_name_what_to_do() {
    assert_eq!(said(&run_job(sh("echo $0")).await), "/bin/sh");
    assert_eq!(said(&run_job(Job::new("sh").args(["-c", "echo $0"])).await), "sh");
}

#[tokio::test]
async fn a_megabyte_both_ways_does_not_deadlock() {
    let input = vec![b'x'; 1 << 20];
    let finished = Sandbox::default().run(Job::new("cat"), input.clone(), CancellationToken::new()).await;
    assert!(finished.unwrap().stdout == input);
}

#[tokio::test]
async fn streams_can_be_opened_by_their_names() {
    let finished = run_job(sh("echo out > /dev/stdout; echo err > /dev/stderr")).await;
    assert_eq!((said(&finished), text(&finished.stderr)), ("out".into(), "err\n".into()));
}

#[tokio::test]
async fn it_works_in_an_empty_folder_that_is_gone_afterwards() {
    let script = "pwd; ls -A; echo a > a; mkdir -p b/c; mv a b/c/; ln b/c/a l; cat l; ls -A /tmp /dev/shm";
    assert_eq!(said(&run_job(sh(script)).await), "/box\na\n/dev/shm:\n\n/tmp:");
    assert_eq!(said(&run_job(sh("ls -A")).await), "");
}

#[tokio::test]
async fn files_are_given_and_taken() {
    let mut job = sh("sed -i s/x/y/ in/data.txt; ./in/run > out.txt");
    let file = |path: &str, content: &str, executable| FileIn {
        path: path.into(),
        content: content.as_bytes().to_vec(),
        executable,
    };
    job.files = vec![file("in/data.txt", "x\n", false), file("in/run", "#!/bin/sh\ncat in/data.txt", true)];
    let finished = run_job(job).await;
    said(&finished);
    let seen = fs::read_to_string(format!("/proc/self/fd/{}/out.txt", raw(&finished.work_dir)));
    assert_eq!(seen.unwrap(), "y\n");
}

fn raw(descriptor: &std::os::fd::OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(descriptor)
}

#[tokio::test]
async fn files_stay_in_the_work_directory() {
    for path in ["../x", "/etc/x", "", "a/../../x", "."] {
        let mut job = sh("true");
        job.files = vec![FileIn { path: path.into(), content: Vec::new(), executable: false }];
        let error = Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await.unwrap_err();
        assert!(error.reason.contains("is no place in the work directory"), "{path}: {error}");
    }
}

#[tokio::test]
async fn python_with_threads_processes_and_sockets() {
    let script = r#"
import multiprocessing, threading, subprocess, socket, sqlite3, ssl, tempfile, asyncio, json, ctypes, hashlib
with multiprocessing.Pool(4) as pool: assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
done = []
threads = [threading.Thread(target=done.append, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]; assert len(done) == 8
assert subprocess.run("echo a | tr a b", shell=True, capture_output=True).stdout == b"b\n"
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()); peer, _ = server.accept()
client.sendall(b"hi"); assert peer.recv(2) == b"hi"
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
with tempfile.NamedTemporaryFile() as f: sqlite3.connect(f.name).execute("create table t(x)")
async def main(): return await asyncio.to_thread(lambda: 7)
assert asyncio.run(main()) == 7
assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 0
import shutil; assert shutil.disk_usage("/box").total > 0
print("fine")
"#;
    assert_eq!(said(&run_job(python(script)).await), "fine");
}

#[tokio::test]
async fn node_with_workers() {
    let script = "const { Worker } = require('worker_threads'); const cp = require('child_process'); \
        new Worker(\"require('worker_threads').parentPort.postMessage(6 * 7)\", { eval: true }) \
        .on('message', n => console.log(n, cp.execSync('echo sub').toString().trim()))";
    let mut job = Job::new("node").args(["-e", script]);
    job.policy.limits.wall_ms = 60_000;
    assert_eq!(said(&run_job(job).await), "42 sub");
}

#[tokio::test]
async fn a_compiler_and_what_it_makes() {
    let mut job =
        sh("echo 'int puts(const char*); int main(){puts(\"made\");}' > a.c && gcc -w a.c -o a && ./a");
    job.policy.limits.wall_ms = 60_000;
    assert_eq!(said(&run_job(job).await), "made");
}

#[tokio::test]
async fn granted_folders_can_be_read_or_changed_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (read, write, other) = (folder.path().join("r"), folder.path().join("w"), folder.path().join("o"));
    for one in [&read, &write, &other] {
        fs::create_dir(one).unwrap();
        fs::write(one.join("file"), "content").unwrap();
        fs::set_permissions(one.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let script = "cat $1/file; echo new > $2/new && chmod 755 $2/new && rm $2/file; \
        touch $1/x 2>/dev/null && echo wrote; cat $3/file 2>/dev/null && echo saw; ls $3/.. | tr '\\n' ' '";
    let paths = [&read, &write, &other].map(|one| one.to_str().unwrap().to_owned());
    let mut job = sh(script).args(["sh"]).args(paths.clone());
    job.policy.read = vec![read.clone()];
    job.policy.write = vec![write.clone()];
    let finished = run_job(job).await;
    assert_eq!(text(&finished.stdout), "content", "{}", text(&finished.stderr));
    // The third folder is not there at all, nor is its parent's content.
    let made = fs::metadata(write.join("new")).unwrap();
    assert_eq!(made.uid(), rustix::process::getuid().as_raw());
    assert_eq!(made.permissions().mode() & 0o777, 0o755);
    assert!(!write.join("file").exists() && !read.join("x").exists());
}

#[tokio::test]
async fn a_grant_within_a_grant_and_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::write(folder.path().join("a/top"), "top").unwrap();
    std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("link")).unwrap();
    let link = folder.path().join("link");
    let script = "cat $1/top; touch $1/b/new; touch $1/new 2>/dev/null || echo kept";
    let mut job = sh(script).args(["sh", link.to_str().unwrap()]);
    job.policy.read = vec![link];
    job.policy.write = vec![inner.clone()];
    assert_eq!(said(&run_job(job).await), "topkept");
    assert!(inner.join("new").exists());
}

#[tokio::test]
async fn what_is_helves_own_is_not_seen_or_changed_through_a_grant() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("state")).unwrap();
    for name in ["state/journal", "lone", "settings", "free"] {
        fs::write(at(name), "content").unwrap();
    }
    let options = SandboxOptions {
        hidden: vec![at("state"), at("lone"), at("absent")],
        unwritable: Unwritable::from_iter([at("settings")]),
        ..SandboxOptions::default()
    };
    let sandbox = Sandbox::new(options);
    let script = "cd $1; cat state/journal lone 2>/dev/null; ls -A state 2>/dev/null; cat settings; \
        echo x > settings; mv settings s2; rm -rf state lone settings; mv state s3; echo x > free; echo done";
    let mut job = sh(script).args(["sh", folder.path().to_str().unwrap()]);
    job.policy.write = vec![folder.path().to_owned()];
    let finished = sandbox.run(job, Vec::new(), CancellationToken::new()).await.unwrap();
    assert_eq!(text(&finished.stdout), "contentdone\n");
    for (name, expected) in
        [("state/journal", "content"), ("lone", "content"), ("settings", "content"), ("free", "x\n")]
    {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), expected, "{name}");
    }
    let mut job = sh("true");
    job.policy.read = vec![at("state")];
    let error = sandbox.run(job, Vec::new(), CancellationToken::new()).await.unwrap_err();
    assert!(error.reason.contains("it is Helve's own"), "{error}");
}

/// Whatever else is granted around it, and however it is reached.
#[tokio::test]
async fn a_name_that_leads_to_what_is_unwritable_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    for inner in ["a/b/c", "ro/in", "conf/more"] {
        fs::create_dir_all(at(inner)).unwrap();
    }
    let files = ["a/b/c/file", "a/state", "real", "ro/in/file", "conf/more/file", "granted"];
    for name in files {
        fs::write(at(name), "kept").unwrap();
    }
    for (link, target) in [("link", "other"), ("other", "real"), ("door", "a/b")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    let unwritable = ["link", "door/c/file", "ro/in/file", "conf", "granted", "gone/file"].map(at);
    let options = SandboxOptions {
        hidden: vec![at("a/state")],
        unwritable: unwritable.into_iter().collect(),
        ..SandboxOptions::default()
    };
    let script = "cd $1; for f in link other real door granted a/b/c/file ro/in/file conf/more/file; do \
        echo evil > $f; rm -rf $f; mv $f moved; ln -sfn x $f; echo evil > n; mv -T n $f; ln $f hard; echo evil > hard; \
        done; for d in a a/b a/b/c ro ro/in conf; do mv $d away; rm -rf $d; done; \
        mkdir -p a/b/c; echo evil > a/b/c/file; echo evil > a/state; touch ro/in/new; touch a/b/new; touch new; \
        cat door/c/file link";
    let mut job = sh(script).args(["sh", root.to_str().unwrap()]);
    // One grant within another, so that folders lie between them, and what is unwritable granted by name.
    job.policy.write = vec![root.clone(), at("a/b/c"), at("granted"), at("conf/more")];
    job.policy.read = vec![at("ro")];
    let finished = Sandbox::new(options).run(job, Vec::new(), CancellationToken::new()).await.unwrap();
    assert_eq!(text(&finished.stdout), "keptkept", "{}", text(&finished.stderr));
    for name in files {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), "kept", "{name}");
    }
    for (link, target) in [("link", "other"), ("other", "real"), ("door", "a/b")] {
        assert_eq!(fs::read_link(at(link)).unwrap(), std::path::Path::new(target), "{link}");
    }
    assert!(!at("ro/in/new").exists(), "what may only be read stays so");
    assert!(at("a/b/new").exists() && at("new").exists(), "all else may be changed");
}

#[tokio::test]
async fn what_cannot_be_granted_is_refused_with_the_reason() {
    let cases = [
        ("/", "cannot be granted: name the folders"),
        ("/proc/1", "has a `/proc` of its own"),
        ("/sys/kernel", "has a `/sys` of its own"),
        ("/dev", "has a `/dev` of its own"),
        ("relative", "the path is relative"),
        ("/nowhere/at/all", "create it, or take it out"),
    ];
    for (path, reason) in cases {
        let mut job = sh("true");
        job.policy.read = vec![path.into()];
        let error = Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await.unwrap_err();
        assert!(error.reason.contains(reason), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_program_from_elsewhere_brings_its_own_place_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("deep/place");
    fs::create_dir_all(place.join("bin")).unwrap();
    fs::create_dir_all(place.join("lib")).unwrap();
    fs::write(place.join("lib/data"), "found").unwrap();
    fs::write(folder.path().join("secret"), "no").unwrap();
    let program = place.join("bin/tool");
    fs::write(&program, "#!/bin/sh\ncat ${0%/bin/*}/lib/data; cat ${0%/deep*}/secret 2>/dev/null").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(text(&run_job(Job::new(program)).await.stdout), "found");
}

#[tokio::test]
async fn a_weaker_box_than_asked_for_is_refused() {
    let mut job = sh("true");
    job.policy.min_level = Level::L3;
    let run = Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await;
    match expected_level() {
        Level::L3 => assert_eq!(run.unwrap().end, End::Exited { code: 0 }),
        _ => assert!(run.unwrap_err().reason.contains("at level L2 only, and L3 is asked for")),
    }
}

#[tokio::test]
async fn what_a_box_says_it_enforces_holds_when_tried() {
    let probed = Sandbox::default().probe().await.unwrap();
    assert_eq!(probed.broken(), []);
    assert_eq!(probed.confinement.level, expected_level());
}

#[tokio::test]
async fn many_boxes_at_once_do_not_meet() {
    let sandbox = Sandbox::default();
    let runs = (0..12).map(|n| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            let job = sh(&format!("echo {n} > /tmp/me; sleep 0.2; cat /tmp/me; ls /proc | grep -c '^[0-9]'"));
            let finished = sandbox.run(job, Vec::new(), CancellationToken::new()).await.unwrap();
            (n, text(&finished.stdout))
        })
    });
    for run in runs.collect::<Vec<_>>() {
        let (n, said) = run.await.unwrap();
        let (own, seen) = said.trim_end().split_once('\n').unwrap();
        assert_eq!(own, n.to_string());
        // Process 1, the shell, `ls` and `grep`.
        assert!(seen.parse::<u32>().unwrap() <= 4, "{seen}");
    }
}

/// Somebody agreed to what lies in one folder. A link that leads elsewhere starts nothing.
#[tokio::test]
async fn what_leads_elsewhere_than_was_agreed_to_starts_no_box() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for inner in ["project/real", "home"] {
        fs::create_dir_all(root.join(inner)).unwrap();
    }
    std::os::unix::fs::symlink("../home", root.join("project/out")).unwrap();
    std::os::unix::fs::symlink("real", root.join("project/in")).unwrap();
    let run = async |name: &str, within: &[&str]| {
        let path = root.join("project").join(name);
        let mut job = sh("echo made > $1/file").args(["sh", path.to_str().unwrap()]);
        job.policy.write = vec![path];
        job.policy.within = Some(within.iter().map(|inner| root.join(inner)).collect());
        Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await
    };
    let refused = run("out", &["project"]).await.unwrap_err().to_string();
    assert!(refused.contains("was not agreed to"), "{refused}");
    assert!(!root.join("home/file").exists());
    run("in", &["project"]).await.unwrap();
    assert!(root.join("project/real/file").exists(), "a link within the folder is fine");
    run("out", &["project", "home"]).await.unwrap();
    assert!(root.join("home/file").exists(), "and so is what somebody agreed to");
}

/// A program at the same time puts a link in the place of a folder, again and again, while boxes are built.
#[tokio::test]
async fn no_link_that_comes_while_a_box_is_built_leads_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for inner in ["project/real/deep", "home/deep"] {
        fs::create_dir_all(root.join(inner)).unwrap();
    }
    std::os::unix::fs::symlink("../home", root.join("project/link")).unwrap();
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let (stop, project) = (std::sync::Arc::clone(&done), root.join("project"));
    let flipping = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            for name in ["real", "link"] {
                let (from, to) = (project.join(name), project.join("now"));
                fs::rename(&from, &to).unwrap();
                fs::rename(&to, &from).unwrap();
            }
        }
    });
    // Most of the time the name is not there, or leads out already when somebody looks.
    let (mut ran, mut tries) = (0, 0);
    while ran < 20 && tries < 20_000 {
        tries += 1;
        let path = root.join("project/now/deep");
        let mut job = sh("echo made > $1/file").args(["sh", path.to_str().unwrap()]);
        job.policy.write = vec![path];
        job.policy.within = Some(vec![root.join("project")]);
        if Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await.is_ok() {
            ran += 1;
        }
    }
    done.store(true, Ordering::Relaxed);
    flipping.join().unwrap();
    assert!(!root.join("home/deep/file").exists(), "after {ran} of {tries}");
}
