"""A line to the witness that is long and loses packets, as a TCP relay: this kernel has no netem. What is sent arrives later;
a lost packet holds up what follows until it is sent again, as TCP does; connections break now and then, and some are refused."""
import asyncio
import random
import socket
import struct
import threading

from basics import free_port

SEGMENT = 1400  # bytes of a packet


class SlowLine:
    """Between a port of its own and `to`. `delay` is of one direction, in seconds; `loss` of a packet, and of a handshake's."""

    def __init__(self, to, address="127.0.0.1", delay=1.5, loss=0.2, breaks=0.01, refuses=0.05, seed=None):
        self.to, self.address, self.port = to, address, free_port(address)
        self.delay, self.loss, self.breaks, self.refuses = delay, loss, breaks, refuses
        self.random = random.Random(seed)
        self.is_cut = False
        self.connections = self.broken = self.refused = self.lost = 0
        self.loop = asyncio.new_event_loop()
        self.mended = None
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def url(self, scheme):
        return f"{scheme}://{self.address}:{self.port}"

    def cut(self):
        """Nothing arrives any more, and nobody is told."""
        self.loop.call_soon_threadsafe(self._set_cut, True)

    def mend(self):
        self.loop.call_soon_threadsafe(self._set_cut, False)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def _set_cut(self, cut):
        self.is_cut = cut
        self.mended.clear() if cut else self.mended.set()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.mended = asyncio.Event()
        self.mended.set()
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, self.address, self.port, limit=SEGMENT))
        started.set()
        self.loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))

    def _held_up(self, wait):
        """Seconds until a packet got through that is sent again after `wait`, then after twice that, ..."""
        total = 0.0
        while self.random.random() < self.loss:
            self.lost += 1
            total += wait
            wait *= 2
        return total

    async def _serve(self, reader, writer):
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:  # the test is over
            reset(writer)

    async def _relay(self, reader, writer):
        self.connections += 1
        if self.random.random() < self.refuses:
            self.refused += 1
            return reset(writer)
        # The client's kernel takes the connection for made at once: what it sends waits for the handshake here.
        begins = self.loop.time() + 2 * self.delay + self._held_up(1.0)
        await asyncio.sleep(max(0, begins - self.delay - self.loop.time()))
        await self.mended.wait()
        try:
            onward, back = await asyncio.open_connection(*self.to, limit=SEGMENT)
        except OSError:
            return reset(writer)
        there = asyncio.ensure_future(self._pass_on(reader, back, begins))
        here = asyncio.ensure_future(self._pass_on(onward, writer, begins))
        try:
            await asyncio.wait((there, here), return_when=asyncio.FIRST_EXCEPTION)
            await asyncio.gather(there, here)
        except (OSError, ConnectionError):
            pass
        finally:
            there.cancel()
            here.cancel()
            reset(writer)
            reset(back)

    async def _pass_on(self, reader, writer, begins):
        """In order: what is held up holds up what follows."""
        queue = asyncio.Queue()

        async def send():
            while True:
                at, data = await queue.get()
                await asyncio.sleep(max(0, at - self.loop.time()))
                await self.mended.wait()
                if not data:
                    return writer.write_eof() if writer.can_write_eof() else None
                writer.write(data)
                await writer.drain()

        sender = asyncio.ensure_future(send())
        last = begins
        try:
            while True:
                data = await reader.read(SEGMENT)
                if data and self.random.random() < self.breaks:
                    self.broken += 1
                    await asyncio.sleep(self.delay)
                    raise ConnectionError("broken")
                last = max(last, max(self.loop.time(), begins) + self.delay + self._held_up(2.2 * self.delay))
                queue.put_nowait((last, data))
                if not data:
                    return await sender
        finally:
            sender.cancel()


def reset(writer):
    """As a broken connection looks."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
