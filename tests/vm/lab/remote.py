"""What the host asks of a machine that runs guest/agent.py."""
import contextlib
import json
import socket

import agent
import harness
from harness import check


class Remote:
    """A machine at `address`, called `name` where something fails."""

    def ask(self, request, keep=False, seconds=120.0):
        connection = socket.create_connection((self.address, agent.PORT), 2)
        connection.settimeout(seconds)
        connection.sendall((json.dumps(request, default=str) + "\n").encode())
        if keep:
            return connection
        with connection:
            answer = json.loads(connection.makefile("r").readline() or '{"error": "no answer"}')
        check("error" not in answer, f"{self.name}: {request}: {answer.get('error')}")
        return answer

    def run(self, *command):
        answer = self.ask({"run": [str(part) for part in command]})
        check(answer["code"] == 0, f"{self.name}: {' '.join(map(str, command))}: {answer['output']}")
        return answer["output"]

    def reached(self):
        """Whether its agent answers."""
        with contextlib.suppress(OSError, harness.Failed, ValueError):
            return self.run("true") == ""
        return False
