# A started interpreter that waits for its code: the first line of its input says that it is there.
import atexit, os, sys
import array, ast, asyncio, base64, bisect, collections, contextlib, copy, csv, dataclasses, datetime, decimal, enum
import fractions, functools, glob, hashlib, heapq, io, itertools, json, math, operator, pathlib, random, re, runpy
import shutil, socket, statistics, string, subprocess, tempfile, textwrap, threading, time, traceback, typing, uuid
while os.read(0, 1) not in (b"\n", b""): pass
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.getcwd()]
sys.argv = [sys.argv[1]]

def run(path, atexit=atexit, os=os, sys=sys, threading=threading):
    """Runs the code as if it had been started itself, and ends without tidying up: the box is thrown away."""
    main, code = sys.modules["__main__"].__dict__, 0
    try:
        with open(path, "rb") as file: compiled = compile(file.read(), path, "exec")
        for name in [name for name in main if not name.startswith("__")]: del main[name]
        main["__file__"] = path
        exec(compiled, main)
    except SystemExit as end:
        code = end.code
        if code is None: code = 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:
        # The frame of this function is not the code's business.
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    try:
        threading._shutdown(), atexit._run_exitfuncs()
        [stream.flush() for stream in (sys.stdout, sys.stderr) if stream]
    except BrokenPipeError:
        code = 120
    os._exit(code & 255)
run(sys.argv[0])
