"""A server of the session era on stdio without any SDK, that does what a test tells it: plain.py [NOTE_FILE]

Every call runs in a thread of its own. Its tool `note` is described by what NOTE_FILE holds.
"""

import json
import os
import sys
import threading
import time

lock = threading.Lock()
cancelled = {}
answers = {}
taken_back = []
hushed = False
subscribed = []
listens = {}
unlistened = {}
next_id = [1000]


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    next_id[0] += 1
    mine, there, box = f"q{next_id[0]}", threading.Event(), {}
    answers[mine] = (there, box)
    send({"id": mine, "method": method, "params": params})
    there.wait()
    return box["message"].get("result") or {"refused": box["message"]["error"]["message"]}


def text(words, **more):
    return {"content": [{"type": "text", "text": str(words)}], **more}


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def call(name, args, meta, gone):
    global hushed
    if name in ("read", "write"):
        print(f"{name} begins", file=sys.stderr, flush=True)
        while not os.path.exists(args.get("gate", "/")):
            time.sleep(0.01)
        return text(f"{name} by {os.getpid()}")
    if name == "pid":
        return text(os.getpid())
    if name == "env":
        return text("there", structuredContent=dict(os.environ))
    if name == "ask":
        while not os.path.exists(args.get("gate", "/")):
            time.sleep(0.01)
        message = args.get("message", "Who are you?")
        return text(json.dumps(ask("elicitation/create", {"message": message, "requestedSchema": FORM})))
    if name == "sample":
        messages = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
        return text(json.dumps(ask("sampling/createMessage", {"messages": messages, "maxTokens": 10})))
    if name == "roots":
        return text(json.dumps(ask("roots/list", {})))
    if name == "steps":
        for step in range(args["count"]):
            time.sleep(args["ms"] / 1000)
            params = {"progressToken": meta["progressToken"], "progress": step + 1, "total": args["count"]}
            send({"method": "notifications/progress", "params": {**params, "message": f"step {step + 1}"}})
        return text("done")
    if name == "stuck":
        print("stuck begins", file=sys.stderr, flush=True)
        gone.wait()
        taken_back.append(args.get("label"))
        return None
    if name == "taken_back":
        return text(json.dumps(taken_back))
    if name == "wrong":
        return text("{}", structuredContent={"total": "many"})
    if name == "both":
        return text("in words", structuredContent={"total": 7})
    if name == "fail":
        return text("it did not work", isError=True)
    if name == "big":
        return text("x" * args["bytes"])
    if name == "say":
        print(args["words"], file=sys.stderr, flush=True)
        send({"method": "notifications/message", "params": {"level": "info", "data": args["words"]}})
        return text("said")
    if name == "say_later":
        params = {"level": args.get("level", "info"), "data": args["words"]}
        threading.Timer(0.2, lambda: send({"method": "notifications/message", "params": params})).start()
        return text("in a while")
    if name == "hush":
        hushed = True
        return text("I say nothing more to pings")
    if name == "listens":
        return text(json.dumps(list(listens.values())))
    if name == "unlisten":
        unlistened[args["uri"]] = args["how"]
        return text("as you wish")
    if name == "end_listens":
        for mine in list(listens):
            del listens[mine]
            send({"method": "notifications/cancelled", "params": {"requestId": mine}})
        return text("ended")
    if name == "touch":
        for mine, wanted in list(listens.items()):
            if args["uri"] in wanted.get("resourceSubscriptions", []):
                about = {"io.modelcontextprotocol/subscriptionId": mine}
                params = {"uri": args["uri"], "_meta": about}
                send({"method": "notifications/resources/updated", "params": params})
        if args["uri"] in subscribed:
            send({"method": "notifications/resources/updated", "params": {"uri": args["uri"]}})
        return text("touched")
    if name == "flood":
        for uri in [f"plain://{n}" for n in range(args["count"])] + [args["uri"]]:
            send({"method": "notifications/resources/updated", "params": {"uri": uri}})
        return text("flooded")
    if name == "subscribed":
        return text(json.dumps(subscribed))
    if name == "note":
        return text("noted")
    return text(f"no tool {name}", isError=True)


def tools():
    any_object = {"type": "object"}
    total = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    reads = {"annotations": {"readOnlyHint": True}}
    more = {"read": reads, "pid": reads, "wrong": {"outputSchema": total}, "both": {"outputSchema": total}}
    names = ["read", "write", "pid", "env", "ask", "sample", "roots", "steps", "stuck", "taken_back", "wrong",
             "both", "fail", "big", "say", "say_later", "hush", "touch", "flood", "subscribed", "listens",
             "unlisten", "end_listens"]
    listed = [{"name": n, "description": n, "inputSchema": any_object, **more.get(n, {})} for n in names]
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            listed += json.load(file)
    return listed


def handle(message):
    method, mine, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        there, box = answers.pop(mine)
        box["message"] = message
        there.set()
    elif method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        send({"id": mine, "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                     "serverInfo": {"name": "plain", "version": "1"}}})
    elif method == "tools/list":
        send({"id": mine, "result": {"tools": tools()}})
    elif method == "resources/list":
        send({"id": mine, "result": {"resources": [{"uri": "plain://" + name, "name": name} for name in "ab"]}})
    elif method == "resources/subscribe":
        subscribed.append(params["uri"])
        send({"id": mine, "result": {}})
    elif method == "resources/unsubscribe":
        # However often it was asked for.
        subscribed[:] = [uri for uri in subscribed if uri != params["uri"]]
        send({"id": mine, "result": {}})
    elif method == "server/discover":
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        send({"id": mine, "result": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                                     "serverInfo": {"name": "plain", "version": "1"}}})
    elif method == "subscriptions/listen":
        wanted = params["notifications"]
        uris = wanted.get("resourceSubscriptions", [])
        if any(unlistened.get(uri) == "refuse" for uri in uris):
            send({"id": mine, "error": {"code": -32602, "message": "no such resource"}})
            return
        if uris:
            wanted["resourceSubscriptions"] = [uri for uri in uris if uri not in unlistened]
        listens[mine] = wanted
        about = {"io.modelcontextprotocol/subscriptionId": mine}
        acknowledged = {"notifications": wanted, "_meta": about}
        send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    elif method == "ping":
        if not hushed:
            send({"id": mine, "result": {}})
    elif method == "notifications/cancelled":
        listens.pop(params["requestId"], None)
        if params["requestId"] in cancelled:
            cancelled[params["requestId"]].set()
    elif method == "tools/call":
        gone = cancelled[mine] = threading.Event()

        def work():
            result = call(params["name"], params.get("arguments") or {}, params.get("_meta") or {}, gone)
            if result is not None:
                send({"id": mine, "result": result})

        threading.Thread(target=work, daemon=True).start()
    elif mine is not None:
        send({"id": mine, "error": {"code": -32601, "message": f"no {method}"}})


if "BARRIER" in os.environ:
    # Nobody speaks before all are there.
    folder, count = os.environ["BARRIER"].split(":")
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while len(os.listdir(folder)) < int(count):
        time.sleep(0.01)

for line in sys.stdin:
    handle(json.loads(line))
