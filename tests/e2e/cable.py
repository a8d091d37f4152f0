"""A network between the two nodes of a pair that can be cut: one path of their link, in both directions."""
import contextlib
import selectors
import socket
import threading

from basics import free_port


class Cable:
    """Takes calls for either node at that node's address, and calls on from the caller's."""

    def __init__(self, a, b):
        """`a`, `b`: the nodes' addresses on this network, each with the port that the node listens on."""
        self.into_a, self.into_b = Relay(a, host_of(b)), Relay(b, host_of(a))

    def cut(self, silent):
        """With `silent` nothing arrives any more and nobody is told; else connections end, and new ones are refused."""
        for relay in (self.into_a, self.into_b):
            relay.cut(silent)

    def mend(self):
        for relay in (self.into_a, self.into_b):
            relay.mend()

    def close(self):
        for relay in (self.into_a, self.into_b):
            relay.close()


def host_of(address):
    return address.rsplit(":", 1)[0]


class Relay:
    def __init__(self, to, caller):
        host, port = to.rsplit(":", 1)
        self.to, self.caller = (host, int(port)), caller
        self.host, self.port = host, free_port(host)
        self.address = f"{host}:{self.port}"
        self.selector = selectors.DefaultSelector()
        self.wake, self.woken = socket.socketpair()
        self.selector.register(self.woken, selectors.EVENT_READ)
        self.state = "whole"
        self.closing = False
        self.listener = None
        self._listen()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def cut(self, silent):
        self._become("silent" if silent else "broken")

    def mend(self):
        self._become("whole")

    def close(self):
        self.closing = True
        self.wake.send(b"x")
        self.thread.join()

    def _become(self, state):
        self.state = state
        self.wake.send(b"x")

    # ---- on its own thread ----

    def _listen(self):
        if self.listener is None:
            self.listener = socket.create_server((self.host, self.port), backlog=16)
            self.selector.register(self.listener, selectors.EVENT_READ)

    def _deafen(self):
        if self.listener is not None:
            self.selector.unregister(self.listener)
            self.listener.close()
            self.listener = None

    def _run(self):
        pipes = {}  # each end, and the other
        now = "whole"
        while not self.closing:
            ready = [key.fileobj for key, _ in self.selector.select()]
            if self.woken in ready:
                self.woken.recv(4096)
            if self.state != now:
                was, now = now, self.state
                if now == "broken" or (was == "silent" and now == "whole"):  # what was silent has lost bytes
                    for end in list(pipes):
                        self._end(pipes, end)
                self._listen() if now == "whole" else self._deafen()
                continue
            for end in ready:
                if end is self.woken or now != "whole":
                    if end in pipes and now == "silent":
                        self.selector.unregister(end)
                    continue
                if end is self.listener:
                    self._accept(pipes)
                elif end in pipes:
                    self._pass_on(pipes, end)
        for end in list(pipes):
            self._end(pipes, end)
        self._deafen()

    def _accept(self, pipes):
        with contextlib.suppress(OSError):
            client = self.listener.accept()[0]
            try:
                server = socket.create_connection(self.to, 1, (self.caller, 0))
            except OSError:
                client.close()
                return
            pipes[client], pipes[server] = server, client
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.settimeout(5)
                self.selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, pipes, end):
        try:
            data = end.recv(1 << 18)
            if not data:
                return self._end(pipes, end)
            pipes[end].sendall(data)
        except OSError:
            self._end(pipes, end)

    def _end(self, pipes, end):
        for one in (end, pipes.get(end)):
            if pipes.pop(one, None) is None:
                continue
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(one)
            one.close()
