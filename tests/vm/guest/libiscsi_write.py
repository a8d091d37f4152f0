"""One WRITE(10) of 4 KiB by libiscsi over TCP or iSER: libiscsi_write.py tcp|iser IMMEDIATE PORTAL TARGET. IMMEDIATE is 1 or 0:
whether its data may come with the command. Prints how it ended.

A program of its own, since libiscsi may end it."""
import ctypes
import sys

import scsi_client

TRANSPORTS = {"tcp": 0, "iser": 1}
NORMAL_SESSION, TO_TARGET = 2, 2
WRITE_10, SIZE = bytes.fromhex("2a 00 00 00 00 00 00 00 08 00"), 4096


def main(transport, immediate, portal, target):
    lib = scsi_client.library()
    context = ctypes.c_void_p(lib.iscsi_create_context(b"iqn.2026-11.io.lockstep.lab:libiscsi"))
    lib.iscsi_init_transport(context, TRANSPORTS[transport])
    lib.iscsi_set_targetname(context, target.encode())
    lib.iscsi_set_session_type(context, NORMAL_SESSION)
    lib.iscsi_set_immediate_data(context, int(immediate))
    lib.iscsi_set_noautoreconnect(context, 1)
    lib.iscsi_set_timeout(context, 10)
    if lib.iscsi_full_connect_sync(context, portal.encode(), 0) != 0:
        return f"no login: {lib.iscsi_get_error(context).decode()}"
    task = ctypes.c_void_p(lib.scsi_create_task(len(WRITE_10), WRITE_10, TO_TARGET, SIZE))
    data = scsi_client.Out(SIZE, b"\x5a" * SIZE)
    done = lib.iscsi_scsi_command_sync(context, 0, task, ctypes.byref(data))
    if not done:
        return f"no answer: {lib.iscsi_get_error(context).decode()}"
    return f"status {ctypes.cast(done, ctypes.POINTER(scsi_client.Task)).contents.status}"


print(main(*sys.argv[1:]))
