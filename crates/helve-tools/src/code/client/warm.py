# A started interpreter that waits for its code: the first line of its input says that it is there.
import os, sys
import array, ast, asyncio, base64, bisect, collections, contextlib, copy, csv, dataclasses, datetime, decimal, enum
import fractions, functools, glob, hashlib, heapq, io, itertools, json, math, operator, pathlib, random, re, runpy
import shutil, socket, statistics, string, subprocess, tempfile, textwrap, threading, time, traceback, typing, uuid
while os.read(0, 1) not in (b"\n", b""): pass
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.getcwd()]
sys.argv = [sys.argv[1]]
# As if the code had been started itself, and not by this.
with open(sys.argv[0], "rb") as file: code = compile(file.read(), sys.argv[0], "exec")
main = sys.modules["__main__"].__dict__
for name in [name for name in main if not name.startswith("__") and name not in ("code", "main")]: del main[name]
main["__file__"] = code.co_filename
exec(main.pop("code"), main.pop("main"))
