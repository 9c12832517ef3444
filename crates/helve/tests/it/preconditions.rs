use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve::expression::Expression;
use helve::memory::{MemoryChange, MemoryPlace, MemoryScope, Operation};
use helve::ports::{Connected, Memory};
use helve::precondition::{Condition, DependencyStatus, Precondition};
use helve::record::Entry;
use helve::{
    Call, Caller, ConditionReport, Context, ErrorCode, Runtime, Tool, ToolBuilder, ToolCheck, ToolError,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, code, counter, echo, ran};

fn resource(name: &str) -> Condition {
    Condition::Resource { resource: name.to_owned() }
}

fn state(key: &str, expected: Value) -> Condition {
    Condition::State { state: key.to_owned(), expected, scope: MemoryScope::ShortTerm }
}

fn permission(name: &str) -> Condition {
    Condition::Permission { permission: name.to_owned() }
}

fn dependency(tool: &str, status: DependencyStatus) -> Condition {
    Condition::Dependency { tool: tool.to_owned(), status }
}

fn custom(id: &str) -> Condition {
    Condition::Custom { id: id.to_owned() }
}

fn needs(condition: Condition) -> ToolBuilder {
    echo("needy").precondition(Precondition::critical("The thing must be so.", condition))
}

async fn holds(_: Value, _: Context) -> Result<bool, ToolError> {
    Ok(true)
}

async fn write(runtime: &Runtime, caller: &Caller, scope: MemoryScope, key: &str, value: Value) {
    let place = MemoryPlace::of(caller, scope, key);
    runtime.memory().change(place, MemoryChange::new(Operation::Write(value))).await.unwrap();
}

/// The one thing that a refusal says.
async fn refusal(bench: &Bench) -> String {
    let outcome = bench.call("needy", json!({})).await;
    assert_eq!(code(&outcome), "precondition_failed", "{outcome:?}");
    let error = outcome.error().unwrap();
    assert_eq!(error.suggestions().len(), 1);
    assert!(error.message().starts_with("`needy` cannot run now: The thing must be so. ("));
    error.suggestions()[0].clone()
}

#[tokio::test]
async fn a_resource_is_at_hand_or_nobody_declared_it() {
    let bench = Bench::new([needs(resource("browser"))]);
    assert!(refusal(&bench).await.contains("the resource `browser` is not declared"));

    let at_hand = Arc::new(AtomicBool::new(false));
    let flag = at_hand.clone();
    let check = move |_: Value, _: Context| {
        let flag = flag.load(Ordering::SeqCst);
        async move { Ok(flag) }
    };
    let bench = Bench::with([needs(resource("browser"))], |builder| builder.resource("browser", check));
    assert!(refusal(&bench).await.contains("`browser` is not available now"));
    at_hand.store(true, Ordering::SeqCst);
    assert!(bench.call("needy", json!({})).await.is_success());

    let broken = |_: Value, _: Context| async { Err(ToolError::failed("no program `chromium`")) };
    let bench = Bench::with([needs(resource("browser"))], |builder| builder.resource("browser", broken));
    assert_eq!(refusal(&bench).await, "The thing must be so. (no program `chromium`)");
}

#[tokio::test]
async fn a_state_is_as_expected_in_the_callers_own_memory() {
    let bench = Bench::new([needs(state("left", json!("> 0")))]);
    assert!(refusal(&bench).await.contains("there is no `left` in short-term memory"));
    let (me, other) = (Caller::local(), Caller::principal("other"));
    write(&bench.runtime, &other, MemoryScope::ShortTerm, "left", json!(5)).await;
    write(&bench.runtime, &me, MemoryScope::LongTerm, "left", json!(5)).await;
    refusal(&bench).await;
    write(&bench.runtime, &me, MemoryScope::ShortTerm, "left", json!(0)).await;
    let said = refusal(&bench).await;
    assert!(said.contains("`left` in short-term memory has another value"), "{said}");
    write(&bench.runtime, &me, MemoryScope::ShortTerm, "left", json!(1)).await;
    assert!(bench.call("needy", json!({})).await.is_success());
}

#[test]
fn a_broken_predicate_is_refused_when_the_tool_is_made() {
    let error = needs(state("left", json!("> much"))).build().unwrap_err();
    assert_eq!(error.problems[0].at, "preconditions/0/expected");
    let error = needs(state("", json!(1))).build().unwrap_err();
    assert_eq!(error.problems[0].at, "preconditions/0/state");
}

#[tokio::test]
async fn a_permission_is_granted_to_the_caller_the_principal_or_everybody() {
    let bench = Bench::with([needs(permission("browser:automate"))], |builder| {
        builder.grant("ada", ["mail:send", "browser:*"])
    });
    assert!(refusal(&bench).await.contains("`browser:automate` was not granted to local"));
    let call = |caller: Caller| bench.runtime.call(Call::new("needy", json!({})).by(caller));
    assert!(call(Caller::principal("ada")).await.is_success());
    for (grant, expected) in
        [("browser:automate", true), ("*", true), ("browser:*", true), ("browser", false)]
    {
        assert_eq!(call(Caller::principal("bob").granted([grant])).await.is_success(), expected, "{grant}");
    }
    assert_eq!(code(&call(Caller::anonymous()).await), "precondition_failed");

    let bench = Bench::with([needs(permission("browser:automate"))], |b| b.grant("*", ["browser:automate"]));
    assert!(bench.runtime.call(Call::new("needy", json!({})).by(Caller::anonymous())).await.is_success());
}

#[tokio::test]
async fn a_dependency_is_available_or_has_completed_in_this_session() {
    let bench = Bench::new([needs(dependency("other", DependencyStatus::Available))]);
    assert!(refusal(&bench).await.contains("no tool `other` is registered"));
    let bench = Bench::new([needs(dependency("other", DependencyStatus::Available)), echo("other")]);
    assert!(bench.call("needy", json!({})).await.is_success());

    let login = echo("login").alias("sign-in").handler(|arguments, _| async move {
        if arguments["fail"] == json!(true) { Err(ToolError::failed("no")) } else { Ok(json!("in")) }
    });
    // By an alias: what counts is the tool.
    let bench = Bench::new([needs(dependency("sign-in", DependencyStatus::Completed)), login]);
    let call = |tool: &str, session: &str, arguments: Value| {
        bench.runtime.call(Call::new(tool, arguments).by(Caller::agent("a").session(session)))
    };
    let outcome = call("needy", "one", json!({})).await;
    assert!(outcome.error().unwrap().message().contains("has not completed in this session; call it first"));
    assert_eq!(code(&call("login", "one", json!({ "fail": true })).await), "execution_failed");
    assert_eq!(code(&call("needy", "one", json!({})).await), "precondition_failed");
    assert!(call("login", "one", json!({})).await.is_success());
    assert!(call("needy", "one", json!({})).await.is_success());
    assert_eq!(code(&call("needy", "two", json!({})).await), "precondition_failed");
    // Another principal's session of the same name is another session.
    let stranger = Caller::agent("b").session("one");
    let outcome = bench.runtime.call(Call::new("needy", json!({})).by(stranger)).await;
    assert_eq!(code(&outcome), "precondition_failed");
}

#[tokio::test]
async fn nobody_can_claim_that_a_tool_has_completed() {
    let bench = Bench::new([needs(dependency("login", DependencyStatus::Completed)), echo("login")]);
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, "helve/completed/login");
    let change = MemoryChange::new(Operation::Write(json!(true)));
    let error = bench.runtime.memory().change(place, change).await.unwrap_err();
    assert!(error.to_string().contains("the runtime's own"), "{error}");
    refusal(&bench).await;
    bench.call("login", json!({})).await;
    assert!(bench.call("needy", json!({})).await.is_success());
    let owner = MemoryScope::ShortTerm.owner(&Caller::local());
    for prefix in ["", "h", "helve/"] {
        let memory = bench.runtime.memory();
        let listed = memory.list(MemoryScope::ShortTerm, owner.clone(), prefix.to_owned(), 1).await.unwrap();
        assert_eq!(listed, [], "{prefix}");
    }
}

#[tokio::test]
async fn only_tools_that_others_wait_for_are_noted() {
    let ledger = Arc::new(helve::VolatileLedger::default());
    let runtime = Runtime::builder()
        .ledger(ledger.clone())
        .tool(echo("free"))
        .unwrap()
        .tool(echo("awaited"))
        .unwrap()
        .build();
    runtime.call(Call::new("free", json!({}))).await;
    let owner = MemoryScope::ShortTerm.owner(&Caller::local());
    let noted = || ledger.list(MemoryScope::ShortTerm, owner.clone(), "helve/".to_owned(), 10);
    assert_eq!(noted().await.unwrap().len(), 0);
    // A waiter that is registered later can only wait for what comes later.
    let needy = needs(dependency("awaited", DependencyStatus::Completed)).build().unwrap();
    runtime.registry().register(helve::Layer::Project, needy).unwrap();
    for tool in ["free", "awaited", "awaited"] {
        runtime.call(Call::new(tool, json!({}))).await;
    }
    let keys: Vec<_> = noted().await.unwrap().into_iter().map(|(key, noted)| (key, noted.version)).collect();
    assert_eq!(keys, [("helve/completed/awaited".to_owned(), 1)]);
}

#[tokio::test]
async fn a_custom_check_is_code_or_a_tool_that_reads() {
    let bench = Bench::new([needs(custom("quota"))]);
    assert!(refusal(&bench).await.contains("the check `quota` is not declared"));
    let bench = Bench::with([needs(custom("quota"))], |builder| builder.check("quota", holds));
    assert!(bench.call("needy", json!({})).await.is_success());

    let by_tool = |tool: ToolBuilder, expect: &str| {
        let check = ToolCheck {
            tool: "status".to_owned(),
            arguments: json!({ "up": true }),
            expect: Expression::parse(expect).unwrap(),
        };
        Bench::with([needs(custom("quota")), tool], |builder| builder.check_by_tool("quota", check))
    };
    let bench = by_tool(echo("status"), "result.up");
    let outcome = bench.call("needy", json!({})).await;
    assert!(outcome.is_success());
    let id = outcome.call_id.to_string();
    let checked = |entry: &Entry| {
        matches!(entry, Entry::Finished(end) if &*end.facts.tool == "status"
            && end.facts.correlation_id.as_deref() == Some(id.as_str()))
    };
    assert_eq!(bench.count(checked), 1);
    assert!(refusal(&by_tool(echo("status"), "not result.up")).await.contains("`status` says otherwise"));
    let (counting, count) = counter("status");
    assert!(refusal(&by_tool(counting, "true")).await.contains("checks only read"));
    assert_eq!(ran(&count), 0);
    let circle = echo("status").precondition(Precondition::critical("Itself.", custom("quota")));
    assert!(refusal(&by_tool(circle, "true")).await.contains("go in circles"));
    assert!(refusal(&by_tool(echo("other"), "true")).await.contains("no tool `status`"));
    assert!(
        refusal(&by_tool(echo("status").risk(helve::Risk::High), "true"))
            .await
            .contains("waits for a person")
    );
}

#[tokio::test]
async fn a_tools_own_check_sees_the_arguments_and_the_caller() {
    let tool = echo("needy").precondition_checked(
        Precondition::critical("The thing must be so.", resource("nobody knows it")),
        |arguments: Value, context: Context| async move {
            Ok(arguments["ok"] == json!(true) && context.caller().principal.as_deref() == Some("local"))
        },
    );
    let bench = Bench::new([tool]);
    assert!(refusal(&bench).await.contains("it does not hold now"));
    assert!(bench.call("needy", json!({ "ok": true })).await.is_success());
}

#[tokio::test]
async fn without_what_is_not_critical_a_tool_does_less_and_all_know() {
    let tool = Tool::builder("search")
        .description("Searches.")
        .read_only()
        .precondition(Precondition::preferred("The index should be there.", resource("index")))
        .precondition(Precondition::critical("The disk must be there.", resource("disk")))
        .handler(|_, context| async move { Ok(json!(context.degraded())) });
    let bench = Bench::with([tool], |builder| builder.resource("disk", holds));
    let outcome = bench.call("search", json!({})).await;
    assert_eq!(outcome.degraded.len(), 1);
    assert!(outcome.degraded[0].starts_with("The index should be there. (the "));
    let record = bench.last_record();
    assert_eq!(record.ending.degraded, outcome.degraded);
    assert_eq!(outcome.clone().into_result().unwrap(), json!(record.ending.degraded));

    let whole =
        Bench::with([echo("whole").precondition(Precondition::preferred("It.", resource("a")))], |b| {
            b.resource("a", holds)
        });
    assert!(whole.call("whole", json!({})).await.degraded.is_empty());
}

#[tokio::test]
async fn a_refusal_lists_everything_that_does_not_hold() {
    let (tool, count) = counter("needy");
    let tool = tool
        .precondition(Precondition::critical("A browser.", resource("browser")))
        .precondition(Precondition::critical("A permission.", permission("browser:automate")))
        .precondition(Precondition::preferred("A cache.", resource("cache")))
        .precondition(Precondition::critical("A disk.", resource("disk")));
    let bench = Bench::with([tool], |builder| builder.resource("disk", holds));
    let outcome = bench.call("needy", json!({})).await;
    assert_eq!((code(&outcome), ran(&count)), ("precondition_failed", 0));
    let error = outcome.error().unwrap();
    assert_eq!(error.suggestions().len(), 3);
    for part in ["A browser. (", "A permission. (", "A cache. (", "), not critical"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(!error.message().contains("A disk."));
    assert!(outcome.degraded.is_empty() && bench.last_record().ending.degraded.is_empty());
}

#[tokio::test(start_paused = true)]
async fn checks_run_at_once_and_each_within_its_time() {
    let slow = |_: Value, _: Context| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok(true)
    };
    let mut tool = echo("needy");
    for index in 0..10 {
        tool = tool.precondition(Precondition::critical(format!("Thing {index}."), resource("slow")));
    }
    let bench = Bench::with([tool], |builder| builder.resource("slow", slow));
    let before = Instant::now();
    assert!(bench.call("needy", json!({})).await.is_success());
    assert_eq!(before.elapsed().as_secs(), 4);

    let hang = |_: Value, _: Context| std::future::pending::<Result<bool, ToolError>>();
    let bench = Bench::with([needs(resource("hang"))], |builder| builder.resource("hang", hang));
    let before = Instant::now();
    assert!(refusal(&bench).await.contains("no answer within 5000 ms"));
    assert_eq!(before.elapsed().as_secs(), 5);

    // Nor longer than the caller has for all of it.
    let before = Instant::now();
    bench.runtime.call(Call::new("needy", json!({})).timeout(Duration::from_secs(1))).await;
    assert_eq!(before.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_taken_back_does_not_wait_for_its_checks() {
    let told = Arc::new(AtomicBool::new(false));
    let flag = told.clone();
    let hang = move |_: Value, context: Context| {
        let flag = flag.clone();
        async move {
            let token = context.cancellation().clone();
            tokio::spawn(async move {
                token.cancelled().await;
                flag.store(true, Ordering::SeqCst);
            });
            std::future::pending().await
        }
    };
    let bench = Bench::with([needs(resource("hang"))], |builder| builder.resource("hang", hang));
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    let before = Instant::now();
    let outcome = bench.runtime.call(Call::new("needy", json!({})).cancellation(token)).await;
    assert_eq!((code(&outcome), before.elapsed().as_secs()), ("cancelled", 1));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(told.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_check_that_crashes_counts_as_failed() {
    let crash = |_: Value, _: Context| async { panic!("a secret in the panic") };
    let crash_early =
        |_: Value, _: Context| -> std::future::Ready<Result<bool, ToolError>> { panic!("early") };
    for bench in [
        Bench::with([needs(resource("x"))], |builder| builder.resource("x", crash)),
        Bench::with([needs(resource("x"))], |builder| builder.resource("x", crash_early)),
    ] {
        assert_eq!(refusal(&bench).await, "The thing must be so. (its check crashed)");
    }
}

#[tokio::test]
async fn what_a_tool_needs_can_be_asked_without_running_it() {
    let (tool, count) = counter("needy");
    let tool = tool
        .integration("mail")
        .precondition(Precondition::critical("A browser.", resource("browser")))
        .precondition(Precondition::preferred("A quota.", state("quota", json!("> 0"))));
    let bench = Bench::with([tool], |builder| {
        builder.integrations(Arc::new(Connected::new(["mail"]))).resource("browser", holds)
    });
    let check = |caller: Caller| bench.runtime.check_tool("needy", caller, None);
    let reports = check(Caller::agent("a")).await.unwrap();
    let short = |one: &ConditionReport| (one.kind, one.critical, one.holds, one.reason.is_some());
    assert_eq!(
        reports.iter().map(short).collect::<Vec<_>>(),
        [("integration", true, true, false), ("resource", true, true, false), ("state", false, false, true)]
    );
    assert_eq!(serde_json::to_value(&reports[2]).unwrap()["type"], "state");
    assert_eq!((ran(&count), bench.journal.entries().len()), (0, 0));
    let error = check(Caller::agent("a").allow_only(["other"])).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotAuthorized);
    let error = bench.runtime.check_tool("nedy", Caller::local(), None).await.unwrap_err();
    assert!(error.message().contains("did you mean `needy`?"));
}

/// The seed's two examples, in Rust: a typed value behind an async check, and states in memory.
#[tokio::test]
async fn the_seeds_examples_in_rust() {
    struct BrowserPool {
        free: tokio::sync::Mutex<u32>,
    }
    let pool = Arc::new(BrowserPool { free: tokio::sync::Mutex::new(1) });
    let shared = pool.clone();
    let is_available = move |_: Value, _: Context| {
        let pool = shared.clone();
        async move { Ok(*pool.free.lock().await > 0) }
    };
    let browse = echo("browse")
        .precondition_checked(
            Precondition::critical("Browser instance must be available", resource("browser")),
            is_available,
        )
        .precondition(Precondition::critical(
            "Browser must not be in error state",
            Condition::State {
                state: "browser.error".to_owned(),
                expected: json!(false),
                scope: MemoryScope::Working,
            },
        ))
        .precondition(Precondition::critical(
            "User must have granted browser automation permission",
            permission("browser:automate"),
        ));
    let api = echo("api")
        .precondition(Precondition::critical(
            "API credentials must be configured",
            resource("api:credentials"),
        ))
        .precondition(Precondition::critical(
            "Rate limit must not be exceeded",
            state("api.rateLimit.remaining", json!("> 0")),
        ));
    let bench = Bench::with([browse, api], |builder| builder.resource("api:credentials", holds));
    let caller = Caller::agent("a").session("s").loop_id("l").granted(["browser:automate"]);
    let call = |tool: &str| bench.runtime.call(Call::new(tool, json!({})).by(caller.clone()));
    let unmet = async |tool: &str| call(tool).await.error().map_or(0, |error| error.suggestions().len());

    assert_eq!(unmet("browse").await, 0);
    write(&bench.runtime, &caller, MemoryScope::Working, "browser.error", json!(true)).await;
    assert_eq!(unmet("browse").await, 1);
    *pool.free.lock().await = 0;
    assert_eq!(unmet("browse").await, 2);

    assert_eq!(unmet("api").await, 1);
    write(&bench.runtime, &caller, MemoryScope::ShortTerm, "api.rateLimit.remaining", json!(60)).await;
    assert_eq!(unmet("api").await, 0);
    write(&bench.runtime, &caller, MemoryScope::ShortTerm, "api.rateLimit.remaining", json!(0)).await;
    assert_eq!(unmet("api").await, 1);
}
