"""etcd's database: how large it is, and how it is made smaller when it is full."""
from lockstep_witness.etcd import as_root

MIB = 2 ** 20
QUOTA = 1024 * MIB
MINUTES = 10 * 60  # what a whole database may take on a slow disk


def database_size(etcd):
    return int(etcd.ask("maintenance/status").get("dbSize", 0))


def compact(folder, _):
    """All of it again with the same outcome. A pair's record is what was written last, which stays."""
    with folder.locked():
        etcd = as_root(folder)
        before = database_size(etcd)
        revision = etcd.ask("maintenance/status")["header"]["revision"]
        etcd.ask_unless("mvcc: required revision has been compacted", "kv/compaction", seconds=MINUTES, revision=revision,
                        physical=True)
        etcd.ask("maintenance/defragment", seconds=MINUTES)
        after = database_size(etcd)
        raised = etcd.ask("maintenance/alarm", action="GET").get("alarms", [])
        full = [alarm for alarm in raised if alarm["alarm"] == "NOSPACE"]
        for alarm in full:
            etcd.ask("maintenance/alarm", action="DEACTIVATE", memberID=alarm["memberID"], alarm=alarm["alarm"])
    print(f"The database takes {after / MIB:.1f} MiB, and took {before / MIB:.1f}. At {QUOTA // MIB} MiB etcd takes no more "
          "writes.")
    if full:
        print("It was full. It takes writes again.")
    for alarm in raised:
        if alarm not in full:
            print(f"etcd has raised the alarm {alarm['alarm']}, which stays: what it holds can't be trusted. Treat its data as lost.")
    if after > QUOTA // 2:
        print("Nearly all of that is in use: `lockstep-witness list` shows which pair has so many records.")
