"""The loop of `examples/agent_loop.py` in every provider's format. Prints what each model says at last."""

import importlib.util
import os
import sys

spec = importlib.util.spec_from_file_location("agent_loop", sys.argv[1])
agent_loop = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agent_loop)
ask, HELVE, MODEL, KEY = agent_loop.ask, agent_loop.HELVE, agent_loop.MODEL, agent_loop.KEY


def run(form, path, key, first, request, kept, text):
    """`key` is where a request has the conversation, `kept` what of an answer belongs to it."""
    tools = agent_loop.all_tools(form)
    messages, turn = [first], 0
    while True:
        turn += 1
        said = ask(MODEL + path, {}, {key: messages, **request(tools)})
        # Gemini gives calls no ids: the turn tells them apart.
        answer = ask(HELVE + "/v1/answers", KEY,
                     {"message": said, "session": form, "idempotency_key": f"turn-{turn}", "format": form})
        again = ask(HELVE + "/v1/answers", KEY,
                    {"message": said, "session": form, "idempotency_key": f"turn-{turn}"})
        assert again["messages"] == answer["messages"] and again["format"] == form, (answer, again)
        assert all(call.get("replayed") for call in again["calls"] if call["status"] == "done"), again
        if answer["done"]:
            return print(form, text(said))
        messages += kept(said) + answer["messages"]


user = {"role": "user", "content": "What is 17% of 4,250?"}
run("anthropic", "/v1/messages", "messages", user, lambda tools: {"model": "m", "max_tokens": 9, "tools": tools},
    lambda said: [{"role": "assistant", "content": said["content"]}], lambda said: said["content"][0]["text"])
run("openai", "/v1/responses", "input", user, lambda tools: {"model": "m", "tools": tools},
    lambda said: said["output"], lambda said: said["output"][0]["content"][0]["text"])
run("openai-chat", "/v1/chat/completions", "messages", user, lambda tools: {"model": "m", "tools": tools},
    lambda said: [said["choices"][0]["message"]], lambda said: said["choices"][0]["message"]["content"])
run("gemini", "/v1beta/models/a-model:generateContent", "contents",
    {"role": "user", "parts": [{"text": "What is 17% of 4,250?"}]},
    lambda tools: {"tools": [{"functionDeclarations": tools}]},
    lambda said: [said["candidates"][0]["content"]], lambda said: said["candidates"][0]["content"]["parts"][0]["text"])
