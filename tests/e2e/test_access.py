"""Who is let in, and for how long: a session lives as long as what it was let in by."""
from harness import MIB, Failed, Volume, World, check
from scsi_client import GOOD, Initiator

GROUP = "security"

OLD, NEW, OTHERS = "an-old-secret-01", "a-newer-secret-2", "another-secret-3"


def entry(host, secret=None):
    name = f"iqn.2026-11.io.example:{host}"
    return {"initiator": name, "chap_user": name if secret else None, "chap_secret": secret, "mutual_user": None,
            "mutual_secret": None}


def memory(w, name, lun, *access, closed=False):
    return w.add(Volume(name, lun, 16 * MIB, mirrored=False, memory=True, access=list(access), closed=closed))


def works(host):
    """By the session that it has: none is made anew."""
    check(host.read().status == GOOD, f"{host.name} was disturbed")


def is_out(host, volume):
    """The session that there was is over: no command of it is carried out, of whatever volume."""
    host.volume = volume
    try:
        answer = host.write()
    except (ConnectionError, Failed):
        return
    check(answer.status > 0xFF, f"{host.name} is still in, and writes to {volume.name}: {answer}")


def cannot_log_in(w, volume, host, secret=None):
    try:
        Initiator(w, w.a, volume, host, secret=secret)
    except Failed:
        return
    raise Failed(f"{host} is let in")


def test_a_session_that_proved_nothing_ends_when_its_name_is_given_a_secret_and_a_volume():
    with World(nodes=1, witness=False) as w:
        everybodys = memory(w, "everybodys", 0)
        w.a.apply_cleanly()
        pretender, bystander = (Initiator(w, w.a, everybodys, name, isid) for name, isid in (("mail", 1), ("web", 2)))
        pretender.read(), bystander.read()
        mails = memory(w, "mails", 1, entry("mail", OLD))
        w.a.apply_cleanly()
        is_out(pretender, mails)
        bystander.read()
        cannot_log_in(w, mails, "mail")
        host = Initiator(w, w.a, mails, "mail", secret=OLD)
        check(host.write().status == GOOD, "who proves to be it writes")
        works(bystander)


def test_a_session_ends_when_the_secret_it_proved_is_replaced():
    with World(nodes=1, witness=False) as w:
        mails, webs = memory(w, "mails", 0, entry("mail", OLD)), memory(w, "webs", 1, entry("web", OTHERS))
        w.a.apply_cleanly()
        thief, bystander = Initiator(w, w.a, mails, "mail", secret=OLD), Initiator(w, w.a, webs, "web", 2, OTHERS)
        thief.read(), bystander.read()
        mails.access = [entry("mail", NEW)]
        w.a.apply_cleanly()
        is_out(thief, mails)
        works(bystander)
        cannot_log_in(w, mails, "mail", OLD)
        Initiator(w, w.a, mails, "mail", secret=NEW).read()


def test_a_session_does_not_live_through_its_name_being_taken_off_and_put_on_again():
    with World(nodes=1, witness=False) as w:
        mails, webs = memory(w, "mails", 0, entry("mail", OLD)), memory(w, "webs", 1, entry("web", OTHERS))
        w.a.apply_cleanly()
        thief, bystander = Initiator(w, w.a, mails, "mail", secret=OLD), Initiator(w, w.a, webs, "web", 2, OTHERS)
        thief.read(), bystander.read()
        for access in ([entry("web", OTHERS)], [entry("mail", NEW)]):
            mails.access = access
            w.a.apply_cleanly()
        is_out(thief, mails)
        works(bystander)


def test_a_session_goes_on_while_it_may_see_a_volume_and_sees_only_those_it_may():
    with World(nodes=1, witness=False) as w:
        mails, spare = memory(w, "mails", 0, entry("mail", OLD)), memory(w, "spare", 1, entry("mail", OLD))
        w.a.apply_cleanly()
        host = Initiator(w, w.a, mails, "mail", secret=OLD)
        host.read()
        spare.access = [entry("web", OTHERS)]
        w.a.apply_cleanly()
        host.read()
        works(host)
        host.volume = spare
        check(host.read().status != GOOD, "it reads what is not its own any more")
        mails.access = [entry("web", OTHERS)]
        w.a.apply_cleanly()
        is_out(host, mails)


def test_a_closed_volume_lets_nobody_in_until_a_host_is_named():
    with World(nodes=1, witness=False) as w:
        volume = memory(w, "vm1", 0, closed=True)
        w.a.apply_cleanly()
        cannot_log_in(w, volume, "mail")
        everybodys = memory(w, "everybodys", 1)
        w.a.apply_cleanly()
        host = Initiator(w, w.a, volume, "mail")
        check(host.read().status != GOOD, "who is in for another volume reads a closed one")
        volume.access, volume.closed = [entry("mail")], False
        w.a.apply_cleanly()
        works(host)
        host.volume = everybodys
        works(host)
        volume.access, volume.closed = [], True
        w.a.apply_cleanly()
        host.volume = volume
        check(host.read().status != GOOD, "the volume was closed and is read all the same")
