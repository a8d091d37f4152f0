"""What passes between the nodes and a witness without TLS: connections, requests by their paths, bytes."""
import re
import socket
import threading

from basics import free_port

REQUEST = re.compile(rb"(?:POST|GET) (\S+) HTTP/1")


class CountingProxy:
    def __init__(self, to, address="127.0.0.1"):
        self.to, self.address, self.port = to, address, free_port(address)
        self.connections = self.open = 0
        self.lock = threading.Lock()
        self.counted = {"paths": [], "there": 0, "back": 0}
        self.listener = socket.create_server((address, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, scheme):
        return f"{scheme}://{self.address}:{self.port}"

    def take(self):
        """What was counted since the last time."""
        with self.lock:
            counted, self.counted = self.counted, {"paths": [], "there": 0, "back": 0}
        return counted

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.to)
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open += 1
            threading.Thread(target=self._pass_on, args=(client, server, "there"), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, "back"), daemon=True).start()

    def _pass_on(self, source, target, way):
        try:
            while data := source.recv(65536):
                with self.lock:
                    self.counted[way] += len(data)
                    if way == "there":
                        self.counted["paths"] += [path.decode() for path in REQUEST.findall(data)]
                target.sendall(data)
        except OSError:
            pass
        if way == "there":
            with self.lock:
                self.open -= 1
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
