"""Writes what an interface carries by RoCE v2 into a pcap file until it is told to end: capture.py INTERFACE FILE."""
import signal
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 3
ROCE_PORT = 4791
SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE = 263, 6, 33
PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def is_roce(frame):
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
        return False
    udp = 14 + (frame[14] & 15) * 4
    return int.from_bytes(frame[udp + 2:udp + 4], "big") == ROCE_PORT


def main(interface, path):
    told_to_end = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.append(True))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) as packets, open(path, "wb", 0) as out:
        packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        packets.bind((interface, ALL_PROTOCOLS))
        packets.settimeout(0.2)
        out.write(PCAP_HEADER)
        print("captures", flush=True)
        while True:
            try:
                frame = packets.recv(65535)
            except TimeoutError:
                if told_to_end:
                    break
                continue
            if is_roce(frame):
                now = time.time_ns() // 1000
                out.write(struct.pack("<IIII", now // 10**6, now % 10**6, len(frame), len(frame)) + frame)
        seen, dropped = struct.unpack("II", packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        print(f"{seen} packets, {dropped} dropped", flush=True)


main(*sys.argv[1:])
