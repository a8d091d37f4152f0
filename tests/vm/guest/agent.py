"""What the host asks of a node's machine, over TCP; each connection is one request, a line of JSON.

  {"run": [COMMAND ...]}                    runs it: {"code": 0, "output": "..."}
  {"start": [COMMAND ...], "log": PATH}     starts it: {"pid": 1}
  {"signal": PID, "number": 15}             {}
  {"ended": PID}                            {"code": null} while it runs
  {"connect": PATH}                         {}; from then on the connection is one to that socket
  {"clock": "boottime"}                     {"seconds": 1.0}
  {"read": PATH}                            {"size": 1}; then the file, past the page cache
"""
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time

PORT = 7000
PIECE = 1 << 20
children = {}


def run(request, _):
    done = subprocess.run(request["run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=request.get("seconds", 100))
    return {"code": done.returncode, "output": done.stdout}


def start(request, _):
    with open(request["log"], "ab") as log:
        child = subprocess.Popen(request["start"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    children[child.pid] = child
    return {"pid": child.pid}


def send_signal(request, _):
    children[request["signal"]].send_signal(request["number"])
    return {}


def ended(request, _):
    return {"code": children[request["ended"]].poll()}


def clock(*_):
    return {"seconds": time.clock_gettime(time.CLOCK_BOOTTIME)}


def answer(connection, value):
    connection.sendall((json.dumps(value) + "\n").encode())


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def connect(request, connection):
    other = socket.socket(socket.AF_UNIX)
    other.connect(request["connect"])
    answer(connection, {})
    threading.Thread(target=copy, args=(connection, other), daemon=True).start()
    copy(other, connection)


def read(request, connection):
    handle = os.open(request["read"], os.O_RDONLY | os.O_DIRECT)
    size = os.fstat(handle).st_size
    answer(connection, {"size": size})
    buffer = mmap.mmap(-1, PIECE)
    for offset in range(0, size, PIECE):
        count = os.preadv(handle, [buffer], offset)
        connection.sendall(memoryview(buffer)[:count])
    os.close(handle)


ACTIONS = {"run": run, "start": start, "signal": send_signal, "ended": ended, "connect": connect, "clock": clock, "read": read}


def serve(connection):
    with connection:
        try:
            request = json.loads(connection.makefile("r").readline())
            value = next(ACTIONS[name] for name in request if name in ACTIONS)(request, connection)
        except Exception as error:
            value = {"error": f"{type(error).__name__}: {error}"}
        if value is not None:
            answer(connection, value)


def main():
    listener = socket.create_server((sys.argv[1], PORT))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
