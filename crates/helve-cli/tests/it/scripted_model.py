"""A model on loopback that speaks four providers' formats, from a script: it calls `math-eval` with a field that
the tool does not have, reads the error, calls again, and says what came back. It prints its port.

A request that no real provider would take, or a result that does not say what it should, is answered with 400.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRONG = {"formula": {"text": "4250 * 0.17"}}
RIGHT = {"expression": "4250 * 0.17"}
SAID = "17% of 4,250 is 722.5."


def turn_of(results, tools):
    """What comes next, after these results: arguments of a call, or None for the end."""
    assert "math-eval" in json.dumps(tools), "the model sees the tools"
    if not results:
        return WRONG
    if len(results) == 1:
        assert "expression" in results[0], "the error names the right field: " + results[0]
        return RIGHT
    assert len(results) == 2 and "722.5" in results[1], "the result came back: " + repr(results)
    return None


def anthropic(body, number):
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
    results = [b for b in blocks if b["type"] == "tool_result"]
    assert uses == [b["tool_use_id"] for b in results], "each use has its result"
    arguments = turn_of([b["content"] for b in results], body["tools"])
    assert [b["is_error"] for b in results] == [True, False][: len(results)]
    content = [{"type": "text", "text": SAID if arguments is None else "Let me work that out."}]
    if arguments is not None:
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": "math-eval", "input": arguments})
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"],
            "content": content, "stop_reason": "end_turn" if arguments is None else "tool_use",
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}


def openai(body, number):
    calls = [i["call_id"] for i in body["input"] if i.get("type") == "function_call"]
    results = [i for i in body["input"] if i.get("type") == "function_call_output"]
    assert calls == [i["call_id"] for i in results], "each call has its output"
    arguments = turn_of([i["output"] for i in results], body["tools"])
    output = [{"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "math-eval",
               "arguments": json.dumps(arguments), "status": "completed"}]
    if arguments is None:
        output = [{"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                   "content": [{"type": "output_text", "text": SAID, "annotations": []}]}]
    return {"id": f"resp_{number}", "object": "response", "status": "completed", "output": output}


def chat(body, number):
    calls = [c["id"] for m in body["messages"] for c in m.get("tool_calls") or []]
    results = [m for m in body["messages"] if m["role"] == "tool"]
    assert calls == [m["tool_call_id"] for m in results], "each call has its message"
    arguments = turn_of([m["content"] for m in results], body["tools"])
    message = {"role": "assistant", "content": SAID}
    if arguments is not None:
        function = {"name": "math-eval", "arguments": json.dumps(arguments)}
        message = {"role": "assistant", "content": None,
                   "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}
    return {"id": f"chatcmpl_{number}", "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def gemini(body, number):
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    assert len([part for part in parts if "functionCall" in part]) == len(results)
    arguments = turn_of([json.dumps(result["response"]) for result in results], body["tools"])
    part = {"text": SAID} if arguments is None else {"functionCall": {"name": "math-eval", "args": arguments}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
            "responseId": f"r_{number}"}


PATHS = {"/v1/messages": anthropic, "/v1/responses": openai, "/v1/chat/completions": chat,
         "/v1beta/models/a-model:generateContent": gemini}


class Model(BaseHTTPRequestHandler):
    asked = 0

    def do_POST(self):
        Model.asked += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, said = 200, PATHS[self.path](body, Model.asked)
        except (AssertionError, KeyError) as error:
            status, said = 400, {"error": repr(error)}
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
