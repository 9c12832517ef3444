//! `code-execute`, through a whole runtime and in real boxes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::ports::Ledger;
use helve::runs::Resumption;
use helve::{
    Call, Caller, ErrorCode, Layer, Outcome, Parameter, ParameterType, Runtime, Tool, VolatileLedger,
};
use helve_sandbox::{Limits, Sandbox};
use helve_testkit::FaultyLedger;
use helve_tools::code::{CodeOptions, code_tool};
use serde_json::{Value, json};

/// A runtime with `code-execute`, a tool that adds, one that fails and one that asks a person.
fn runtime(options: CodeOptions) -> Runtime {
    runtime_on(Arc::new(VolatileLedger::default()), options)
}

fn runtime_on(ledger: Arc<dyn Ledger>, options: CodeOptions) -> Runtime {
    let runtime = Runtime::builder().ledger(ledger).build();
    let code = code_tool(options, Sandbox::default(), Limits::default()).build().unwrap();
    let number = |name: &str| Parameter::optional(name, ParameterType::Number, "A number.");
    let add =
        Tool::builder("add").description("Adds.").parameter(number("a")).parameter(number("b")).handler(
            |arguments, _| async move {
                let number = |name: &str| arguments[name].as_f64().unwrap_or(0.0);
                Ok(json!({ "sum": number("a") + number("b") }))
            },
        );
    let asks = Tool::builder("asks")
        .description("Asks first.")
        .input_schema(json!({ "type": "object" }))
        .requires_approval();
    let asks = asks.handler(|_, _| async move { Ok(json!("did it")) });
    for tool in [code, add.build().unwrap(), asks.build().unwrap()] {
        runtime.registry().register(Layer::BuiltIn, tool).unwrap();
    }
    runtime
}

async fn execute(runtime: &Runtime, arguments: Value) -> Outcome {
    execute_as(runtime, "somebody", arguments).await
}

async fn execute_as(runtime: &Runtime, who: &str, arguments: Value) -> Outcome {
    let call =
        Call::new("code-execute", arguments).by(Caller::principal(who)).timeout(Duration::from_secs(60));
    runtime.call(call).await
}

async fn result(runtime: &Runtime, arguments: Value) -> Value {
    execute(runtime, arguments).await.into_result().unwrap()
}

fn cold() -> Runtime {
    runtime(CodeOptions { warm: 0, ..CodeOptions::default() })
}

#[tokio::test]
async fn three_languages_read_write_and_end() {
    let runtime = cold();
    let cases = [
        (
            "python",
            "import sys; print(sys.stdin.read().upper(), end=''); print('e', file=sys.stderr); sys.exit(3)",
        ),
        (
            "javascript",
            "process.stdin.on('data', d => process.stdout.write(d.toString().toUpperCase())).on('end', () => { console.error('e'); process.exit(3) })",
        ),
        ("shell", "tr a-z A-Z; echo e >&2; exit 3"),
    ];
    for (language, code) in cases {
        let said = result(&runtime, json!({ "language": language, "code": code, "stdin": "hello" })).await;
        assert_eq!((&said["stdout"], &said["stderr"]), (&json!("HELLO"), &json!("e\n")), "{language}");
        assert_eq!((&said["status"], &said["exit_code"]), (&json!("exited"), &json!(3)), "{language}");
        assert!(said["usage"]["wall_ms"].is_u64() && said["sandbox"]["level"].is_string());
    }
}

#[tokio::test]
async fn javascript_in_either_form_of_modules() {
    let runtime = cold();
    for code in [
        "const path = require('path'); console.log(path.join('a', 'b'))",
        "import path from 'path'; console.log(path.join('a', 'b'))",
        "console.log(await Promise.resolve('a/b'))",
        "const path = require('path');\nconsole.log(await Promise.resolve(path.join('a', 'b')))",
    ] {
        let said = result(&runtime, json!({ "language": "javascript", "code": code })).await;
        assert_eq!(said["stdout"], "a/b\n", "{said}");
    }
}

#[tokio::test]
async fn files_go_in_and_what_was_made_or_changed_comes_out() {
    let code = "import os, module\ndata = open('in/data.bin', 'rb').read()\nopen('out.txt', 'w').write(str(sum(data)))\n\
        os.mkdir('d'); open('d/bytes', 'wb').write(bytes([0, 255]))\nopen('changed', 'a').write('!')\n\
        os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo'); print(module.x)";
    let files = json!([
        { "path": "in/data.bin", "content": "AQID", "encoding": "base64" },
        { "path": "module.py", "content": "x = 7" },
        { "path": "changed", "content": "a" },
    ]);
    let said = result(&cold(), json!({ "language": "python", "code": code, "files": files })).await;
    assert_eq!(said["stdout"], "7\n", "{said}");
    assert_eq!(
        said["artifacts"],
        json!([
            { "path": "changed", "bytes": 2, "encoding": "utf-8", "content": "a!" },
            { "path": "d/bytes", "bytes": 2, "encoding": "base64", "content": "AP8=" },
            { "path": "out.txt", "bytes": 1, "encoding": "utf-8", "content": "6" },
        ])
    );
}

#[tokio::test]
async fn files_that_are_too_large_are_named_only() {
    let options =
        CodeOptions { warm: 0, artifact_bytes_max: 100, artifacts_max: 3, ..CodeOptions::default() };
    let code = "for n in range(5): open(f'f{n}', 'w').write('x' * (50 if n else 101))";
    let said = result(&runtime(options), json!({ "language": "python", "code": code })).await;
    let artifacts = said["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 3);
    assert_eq!(artifacts[0], json!({ "path": "f0", "bytes": 101 }));
    assert_eq!(artifacts[1]["content"].as_str().unwrap().len(), 50);
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    for path in ["../x", "/etc/x", "", "a/../../x", ".helve/helve.py", "a\u{0}b"] {
        let arguments =
            json!({ "language": "shell", "code": "true", "files": [{ "path": path, "content": "" }] });
        let outcome = execute(&cold(), arguments).await;
        assert_eq!(outcome.error().map(|error| error.code()), Some(ErrorCode::ValidationFailed), "{path}");
    }
}

#[tokio::test]
async fn a_session_keeps_its_files_for_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        || CodeOptions { warm: 0, sessions: Some(folder.path().to_owned()), ..CodeOptions::default() };
    let count = json!({ "language": "shell", "session": "s", "code": "echo x >> log; mkdir -p d; echo y > d/f; wc -l < log; cat d/f" });
    assert_eq!(result(&runtime(options()), count.clone()).await["stdout"], "1\ny\n");
    // Another process, as it were.
    let second = runtime(options());
    assert_eq!(result(&second, count.clone()).await["stdout"], "2\ny\n");
    let other = execute_as(&second, "somebody else", count.clone()).await.into_result().unwrap();
    assert_eq!(other["stdout"], "1\ny\n");
    let mut elsewhere = count.clone();
    elsewhere["session"] = json!("t");
    assert_eq!(result(&second, elsewhere).await["stdout"], "1\ny\n");
    // Two at once wait for each other.
    let (a, b) = tokio::join!(result(&second, count.clone()), result(&second, count));
    let mut said = [a["stdout"].as_str().unwrap().to_owned(), b["stdout"].as_str().unwrap().to_owned()];
    said.sort();
    assert_eq!(said, ["3\ny\n", "4\ny\n"]);
}

#[tokio::test]
async fn after_a_crash_code_does_not_run_again_on_the_folder_that_it_has_changed() {
    let code = "import os\nn = int(open('n').read()) if os.path.exists('n') else 0\nopen('n', 'w').write(str(n + 1))";
    let count = json!({ "language": "python", "code": code, "session": "s" });
    let (mut writes, mut asked) = (0, 0);
    loop {
        let (folder, ledger) = (tempfile::tempdir().unwrap(), Arc::new(VolatileLedger::default()));
        let options = CodeOptions { warm: 0, sessions: Some(folder.path().into()), ..CodeOptions::default() };
        let faulty = Arc::new(FaultyLedger::failing_after(ledger.clone(), writes));
        let outcome = execute(&runtime_on(faulty, options.clone()), count.clone()).await;
        ledger.abandon_runs();
        let runtime = runtime_on(ledger, options);
        let recovered = runtime.recover().await.unwrap();
        asked += recovered.iter().filter(|one| matches!(one.resumption, Resumption::Waits(_))).count();
        let read = json!({ "language": "shell", "code": "cat n || echo 0", "session": "s" });
        let said = result(&runtime, read).await;
        assert!(["0\n", "1"].contains(&said["stdout"].as_str().unwrap()), "after {writes} writes: {said}");
        if outcome.is_success() {
            break;
        }
        writes += 1;
    }
    assert!(asked > 0, "nobody was asked about a crash after it was kept");
}

#[tokio::test]
async fn without_a_session_nothing_is_kept() {
    let runtime = cold();
    let code = json!({ "language": "shell", "code": "ls -A | grep -v helve; touch x" });
    result(&runtime, code.clone()).await;
    assert_eq!(result(&runtime, code).await["stdout"], "");
}

#[tokio::test]
async fn code_calls_other_tools_of_its_caller() {
    let runtime = cold();
    let python = "import helve\nprint(sum(helve.call('add', a=n, b=1)['sum'] for n in range(20)))\n\
        try: helve.call('add', a='x')\nexcept helve.ToolError as e: print(e.code)\n\
        try: helve.call('nope')\nexcept helve.ToolError as e: print(e.code)";
    let said = result(&runtime, json!({ "language": "python", "code": python })).await;
    assert_eq!(said["stdout"], "210.0\nvalidation_failed\ntool_not_found\n", "{said}");
    let javascript = "import helve from 'helve'; \
        const sums = await Promise.all([1, 2, 3].map(n => helve.call('add', { a: n, b: n }))); \
        console.log(sums.map(s => s.sum).join()); await helve.call('nope').catch(e => console.log(e.code))";
    let said = result(&runtime, json!({ "language": "javascript", "code": javascript })).await;
    assert_eq!(said["stdout"], "2,4,6\ntool_not_found\n", "{said}");
    let shell = "helve add '{\"a\": 1, \"b\": 2}'; echo $?; helve nope >/dev/null; echo $?";
    let said = result(&runtime, json!({ "language": "shell", "code": shell })).await;
    assert_eq!(said["stdout"], "{\"ok\":true,\"result\":{\"sum\":3.0}}\n0\n1\n", "{said}");
}

#[tokio::test]
async fn code_waits_as_a_whole_for_a_person() {
    let outcome =
        execute(&cold(), json!({ "language": "python", "code": "import helve; helve.call('asks')" })).await;
    assert!(matches!(outcome.status, helve::Status::Pending(_)), "{outcome:?}");
    // What it would have left is not kept, because it runs again from its start.
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        runtime(CodeOptions { warm: 0, sessions: Some(folder.path().into()), ..CodeOptions::default() });
    let code = "open('mark', 'w')\nimport helve, time\ntry: helve.call('asks')\nfinally: time.sleep(30)";
    let outcome = execute(&runtime, json!({ "language": "python", "code": code, "session": "s" })).await;
    assert!(matches!(outcome.status, helve::Status::Pending(_)), "{outcome:?}");
    let said = result(&runtime, json!({ "language": "shell", "code": "ls", "session": "s" })).await;
    assert_eq!(said["stdout"], "");
}

#[tokio::test]
async fn once_a_person_has_decided_the_code_runs_again() {
    let runtime = cold();
    let code = "import helve\nprint(helve.call('add', a=1, b=1)['sum'], helve.call('asks'))";
    let outcome = execute(&runtime, json!({ "language": "python", "code": code })).await;
    assert_eq!(approved(&runtime, outcome).await["stdout"], "2.0 did it\n");
}

/// What a call of code that waits for a person gives, once that person has approved it.
async fn approved(runtime: &Runtime, outcome: Outcome) -> Value {
    let helve::Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    let ada = Decider::vouched("ada", Vouch::LocalUser);
    runtime.approvals().decide(pending.approval_id, Decision::approve(), &ada).await.unwrap();
    let fetched = runtime.outcome_of(pending.approval_id, &Caller::principal("somebody")).await.unwrap();
    fetched.into_result().unwrap()
}

#[tokio::test]
async fn a_call_beside_one_that_waits_for_a_person_ends_and_happens_once() {
    let runtime = cold();
    let (begun, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&begun), Arc::clone(&ended));
    let slow = Tool::builder("slow").description("Does it slowly.").input_schema(json!({ "type": "object" }));
    let slow = slow.handler(move |_, _| {
        let (begun, ended) = counts.clone();
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            // Longer than the program waits before its other call: two processes, whose order only time makes.
            tokio::time::sleep(Duration::from_secs(2)).await;
            ended.fetch_add(1, Ordering::SeqCst);
            Ok(json!("done"))
        }
    });
    runtime.registry().register(Layer::BuiltIn, slow.build().unwrap()).unwrap();
    let code = "import helve, threading, time\ndef slow():\n  for _ in range(2):\n    try: return print(helve.call('slow'))\n    \
        except helve.ToolError as e: print(e.code, e)\n\
        beside = threading.Thread(target=slow); beside.start()\ntime.sleep(0.5)\nhelve.call('asks')\nbeside.join()";
    let outcome = execute(&runtime, json!({ "language": "python", "code": code })).await;
    assert_eq!(ended.load(Ordering::SeqCst), 1, "{outcome:?}");
    assert_eq!(approved(&runtime, outcome).await["stdout"], "done\n");
    assert_eq!((begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn calls_from_code_are_bound_by_what_its_caller_may_use() {
    let runtime = cold();
    let mut caller = Caller::principal("narrow");
    caller.access = helve::Access::Only(vec!["code-execute".to_owned()]);
    let code =
        "import helve\ntry: print(helve.call('add', a=1, b=1))\nexcept helve.ToolError as e: print(e.code)";
    let call = Call::new("code-execute", json!({ "language": "python", "code": code })).by(caller);
    let said = runtime.call(call).await.into_result().unwrap();
    assert!(["not_authorized\n", "tool_not_found\n"].contains(&said["stdout"].as_str().unwrap()), "{said}");
}

#[tokio::test]
async fn code_does_not_run_code_but_calls_side_by_side_do() {
    let runtime = cold();
    let nested = "import helve\ntry: helve.call('code-execute', language='shell', code='true')\nexcept helve.ToolError as e: print(e.code)\n\
        try: helve.call('code:execute', language='shell', code='true')\nexcept helve.ToolError as e: print(e.code)";
    let said = result(&runtime, json!({ "language": "python", "code": nested })).await;
    assert_eq!(said["stdout"], "sandbox_violation\nsandbox_violation\n", "{said}");
    let both = json!({ "language": "shell", "code": "sleep 0.2; echo fine" });
    let (a, b) = tokio::join!(result(&runtime, both.clone()), result(&runtime, both));
    assert_eq!((&a["stdout"], &b["stdout"]), (&json!("fine\n"), &json!("fine\n")));
}

#[tokio::test]
async fn hostile_requests_to_the_bridge_are_answered_or_dropped() {
    let code = "import socket\ndef say(text):\n  s = socket.create_connection(('127.0.0.1', 3129)); s.sendall(text)\n  \
        s.shutdown(1); return s.makefile().read()[:80].strip()\n\
        for text in (b'', b'\\n', b'[]\\n', b'{\"tool\": 5}\\n', b'{' * 10000 + b'\\n', b'\\xff\\n', b'{\"tool\":\"add\",\"tool\":\"x\"}\\n'): print(say(text)[:12])\n\
        try: print(len(say(b'x' * (2 << 20))) < 200)\nexcept OSError: print(True)";
    let said = result(&cold(), json!({ "language": "python", "code": code })).await;
    let lines: Vec<_> = said["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 8, "{said}");
    assert!(lines[..7].iter().all(|line| line.starts_with("{\"ok\":false")), "{lines:?}");
    assert_eq!(lines[7], "True");
}

#[tokio::test]
async fn without_the_bridge_there_is_nobody_to_call() {
    let options = CodeOptions { warm: 0, call_tools: false, ..CodeOptions::default() };
    let code = "import helve\ntry: helve.call('add')\nexcept OSError: print('nobody')";
    assert_eq!(
        result(&runtime(options), json!({ "language": "python", "code": code })).await["stdout"],
        "nobody\n"
    );
}

#[tokio::test]
async fn blocked_commands_are_refused_and_limits_told() {
    let runtime = cold();
    for code in ["sudo id", "rm -rf /", ":(){ :|:& };:"] {
        let outcome = execute(&runtime, json!({ "language": "shell", "code": code })).await;
        assert_eq!(outcome.error().unwrap().code(), ErrorCode::SandboxViolation, "{code}");
    }
    let said =
        result(&runtime, json!({ "language": "python", "code": "while True: pass", "timeout_ms": 500 }))
            .await;
    assert_eq!((&said["status"], &said["exit_code"]), (&json!("timeout"), &Value::Null));
    let said = result(&runtime, json!({ "language": "shell", "code": "yes" })).await;
    assert_eq!((&said["status"], &said["truncated"]), (&json!("output_limit"), &json!(true)));
}

#[tokio::test]
async fn the_host_is_not_there() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let path: &Path = secret.path();
    let code = format!(
        "import os\nfor p in ({path:?}, '/root', '/home', '/etc/shadow'): print(os.path.exists(p))\n\
        import urllib.request\ntry: urllib.request.urlopen('http://1.1.1.1', timeout=2)\nexcept OSError: print('no network')"
    );
    let said = result(&cold(), json!({ "language": "python", "code": code })).await;
    assert_eq!(said["stdout"], "False\nFalse\nFalse\nFalse\nno network\n");
}

#[tokio::test]
async fn an_interpreter_that_is_not_there_is_named() {
    let options = CodeOptions { warm: 0, javascript: Some("no-such-node".into()), ..CodeOptions::default() };
    let outcome = execute(&runtime(options), json!({ "language": "javascript", "code": "1" })).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing);
    assert!(error.message().contains("no-such-node"), "{error}");
}

/// A box that waited behaves as a new one does.
#[tokio::test]
async fn warm_interpreters_serve_one_call_each_and_behave_as_cold_ones() {
    let runtime = runtime(CodeOptions::default());
    let python = "import sys, os, helve, module\nprint(__name__, os.getcwd(), sys.argv == [__file__], sys.stdin.read())\n\
        print(helve.call('add', a=1, b=2)['sum'], module.x, 'left' in globals(), os.path.exists('/tmp/left'), [n for n in globals() if not n.startswith('__') and n not in ('sys', 'os', 'helve', 'module')])\n\
        left = 1; open('/tmp/left', 'w'); sys.exit(4)";
    let javascript = "const fs = require('fs'); console.log(process.argv.length, fs.readFileSync(0, 'utf8'), fs.existsSync('/tmp/left')); \
        fs.writeFileSync('/tmp/left', ''); process.exit(4)";
    let files = json!([{ "path": "module.py", "content": "x = 5" }]);
    for (language, code, expected) in [
        ("python", python, "__main__ /box True in\n3.0 5 False False []\n"),
        ("javascript", javascript, "2 in false\n"),
    ] {
        for round in 0..3 {
            let arguments = json!({ "language": language, "code": code, "stdin": "in", "files": files });
            let said = result(&runtime, arguments).await;
            assert_eq!(
                (&said["stdout"], &said["exit_code"]),
                (&json!(expected), &json!(4)),
                "{round} {said}"
            );
            // Until the next interpreter waits in its box, which nothing outside tells.
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
    }
}

/// An error looks the same, whatever started the interpreter.
#[tokio::test]
async fn errors_in_warm_interpreters_look_as_in_cold_ones() {
    let (cold, warm) = (cold(), runtime(CodeOptions::default()));
    let codes = [
        ("python", "def f(): raise ValueError('x')\nf()"),
        ("python", "print('a'); import sys; sys.exit('why')"),
        ("python", "1 +"),
        (
            "python",
            "import atexit, threading, time\natexit.register(print, 'last')\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')",
        ),
        (
            "python",
            "class A: pass\nimport pickle, typing\nprint(pickle.loads(pickle.dumps(A())).__class__, typing.get_type_hints(A))",
        ),
        ("javascript", "process.exitCode = 3; setTimeout(() => console.log('later'), 50)"),
    ];
    for (language, code) in codes {
        let arguments = json!({ "language": language, "code": code });
        let expected = result(&cold, arguments.clone()).await;
        // The first call starts the one that the second finds, once it waits in its box, which nothing outside tells.
        result(&warm, json!({ "language": language, "code": "1" })).await;
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let found = result(&warm, arguments).await;
        for key in ["stdout", "stderr", "exit_code", "status"] {
            assert_eq!(found[key], expected[key], "{key} of {code}: {found}");
        }
    }
}

/// Who talks to the bridge and does not finish takes places from itself alone.
#[tokio::test]
async fn half_frames_and_floods_hold_up_nobody_else() {
    let code = "import socket\nopen_ones = []\n\
        for n in range(300):\n  s = socket.socket(); s.settimeout(0.01)\n  \
        try: s.connect(('127.0.0.1', 3129)); s.sendall(b'{\"tool\": \"add\", ')\n  except OSError: pass\n  open_ones.append(s)\n\
        print(len(open_ones), flush=True)\nimport os; os._exit(0)";
    let runtime = cold();
    let (said, other) = tokio::join!(
        result(&runtime, json!({ "language": "python", "code": code })),
        result(
            &runtime,
            json!({ "language": "python", "code": "import helve\nprint(helve.call('add', a=1, b=2)['sum'])" })
        ),
    );
    assert_eq!((&said["stdout"], &said["exit_code"]), (&json!("300\n"), &json!(0)), "{said}");
    assert_eq!(other["stdout"], "3.0\n", "{other}");
    let after =
        json!({ "language": "python", "code": "import helve\nprint(helve.call('add', a=2, b=2)['sum'])" });
    assert_eq!(result(&runtime, after).await["stdout"], "4.0\n");
}

#[tokio::test]
async fn one_run_makes_so_many_calls_and_no_more() {
    let code = "import helve\ndone = 0\n\
        for n in range(1010):\n  try: helve.call('add', a=n, b=0); done += 1\n  except helve.ToolError as e: last = e.code\nprint(done, last)";
    let said = result(&cold(), json!({ "language": "python", "code": code })).await;
    assert_eq!(said["stdout"], "1000 rate_limit\n", "{said}");
}

#[tokio::test]
async fn what_is_no_file_is_no_artifact() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let code = format!(
        "import os, socket\nos.symlink({:?}, 'link'); os.symlink('/etc/passwd', 'passwd'); os.symlink('/proc/self/environ', 'environ'); os.mkfifo('pipe')\n\
        socket.socket(socket.AF_UNIX).bind('socket')\nopen('sparse', 'wb').truncate(1 << 60)\nopen(b'\\xff.bin', 'w').close()\n\
        os.mkdir('locked'); open('locked/x', 'w').close(); os.chmod('locked', 0)\nopen('good', 'w').write('good')",
        secret.path()
    );
    let said = result(&cold(), json!({ "language": "python", "code": code })).await;
    assert_eq!(said["exit_code"], 0, "{said}");
    let artifacts = said["artifacts"].as_array().unwrap();
    let content = |name: &str| artifacts.iter().find(|one| one["path"] == name).map(|one| &one["content"]);
    assert_eq!(content("good"), Some(&json!("good")));
    assert_eq!(content("sparse"), Some(&Value::Null));
    for odd in ["link", "passwd", "environ", "pipe", "socket"] {
        assert_eq!(content(odd), None, "{said}");
    }
    assert!(!said.to_string().contains("s3cret"));
}

#[tokio::test]
async fn what_a_session_does_not_keep_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        runtime(CodeOptions { warm: 0, sessions: Some(folder.path().to_owned()), ..CodeOptions::default() });
    let run = async |session: Option<&str>, code: &str| {
        let mut arguments = json!({ "language": "python", "code": code });
        if let Some(session) = session {
            arguments["session"] = json!(session);
        }
        result(&runtime, arguments).await
    };
    let odd = "import os\nopen('good', 'w').close(); os.symlink('good', 'link'); open(b'\\xff.bin', 'w').close()\n\
        open('sparse', 'wb').truncate(1 << 60)";
    let said = run(Some("odd"), odd).await;
    let mut paths: Vec<_> =
        said["not_kept"]["paths"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    paths.sort();
    assert_eq!(paths, ["link", "sparse", "\u{fffd}.bin"], "{said}");
    assert_eq!(said["not_kept"]["count"], 3);
    let said = run(Some("odd"), "import glob; print(glob.glob('*'))").await;
    assert_eq!((&said["stdout"], &said["not_kept"]), (&json!("['good']\n"), &Value::Null), "{said}");
    assert!(run(None, odd).await["not_kept"].is_null(), "nothing was to be kept");
    let many = run(Some("many"), "for n in range(10_005): open(f'f{n}', 'w').close()").await;
    assert_eq!(many["not_kept"]["count"], 5);
}

#[tokio::test]
async fn two_sessions_of_one_caller_share_no_kept_folder() {
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        runtime(CodeOptions { warm: 0, sessions: Some(folder.path().to_owned()), ..CodeOptions::default() });
    let run = async |session: &str, code: &str| {
        let arguments = json!({ "language": "shell", "session": "notes", "code": code });
        let call = Call::new("code-execute", arguments).by(Caller::principal("somebody").session(session));
        runtime.call(call.timeout(Duration::from_secs(60))).await.into_result().unwrap()["stdout"].clone()
    };
    assert_eq!(run("v1", "echo private > k.txt; ls").await, "k.txt\n");
    // What one has read would reach the other without its label.
    assert_eq!(run("v2", "ls").await, "");
    assert_eq!(run("v1", "cat k.txt").await, "private\n");
}
