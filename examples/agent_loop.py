"""A whole agent in plain HTTP: the model is Anthropic's, the tools are Helve's.

    export HELVE_URL=http://127.0.0.1:7777 HELVE_KEY=$(helve keys create reviewer --agent)
    export ANTHROPIC_API_KEY=... ANTHROPIC_MODEL=...
    python3 examples/agent_loop.py "What is 17% of 4,250?"

Helve validates, authorizes, runs and records every call. A call that needs approval waits here for a minute;
after that the model is told that a person is asked.
"""

import json
import os
import sys
import urllib.request
import uuid

HELVE = os.environ["HELVE_URL"]
MODEL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
KEY = {"Authorization": "Bearer " + os.environ["HELVE_KEY"]}
MODEL_KEY = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
NAME = os.environ["ANTHROPIC_MODEL"]


def ask(url, headers, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def all_tools(form):
    """The tools, page by page."""
    tools, more = [], ""
    while True:
        page = ask(f"{HELVE}/v1/tools?format={form}{more}", KEY)
        tools += page["tools"]
        if "next_cursor" not in page:
            return tools
        more = "&cursor=" + page["next_cursor"]


def run(task):
    tools = all_tools("anthropic")
    messages, session = [{"role": "user", "content": task}], str(uuid.uuid4())
    while True:
        said = ask(MODEL + "/v1/messages", MODEL_KEY,
                   {"model": NAME, "max_tokens": 4096, "tools": tools, "messages": messages})
        answer = ask(HELVE + "/v1/answers", KEY, {"message": said, "session": session, "wait_ms": 60_000})
        if answer["done"]:
            return "".join(block.get("text", "") for block in said["content"])
        messages += [{"role": "assistant", "content": said["content"]}, *answer["messages"]]


if __name__ == "__main__":
    print(run(sys.argv[1]))
