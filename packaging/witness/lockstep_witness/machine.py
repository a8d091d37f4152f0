"""This machine as a witness: set up, and given another certificate or other addresses."""
import dataclasses
import ipaddress
import json
import os
import pathlib
import re
import secrets
import subprocess

from lockstep_witness.certificates import complaint_about, make_ca, make_peer_certificate, make_server_certificate
from lockstep_witness.etcd import (UNIT, DoesNotAnswer, TakesEverybody, as_root, close_to_others, closed_etcd, etcd_yaml,
                                   is_listening)
from lockstep_witness.files import Refused, Settings, is_ip
from lockstep_witness.pairs import check_passwords, make_known_users, make_pair, named, pairs_of, tell_first_node

LISTEN, PORT = "0.0.0.0", 2389

HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")


def check_addresses(addresses):
    for address in addresses:
        if not is_ip(address) and not HOST.fullmatch(address):
            raise Refused(f"{address} is neither an IP address nor a host's name.")
        if is_ip(address) and ipaddress.ip_address(address).is_unspecified:
            raise Refused(f"{address} is no address that a node could reach. Name the one that it reaches this machine by.")


def check_certificate(certificate, key, ca, addresses):
    for address in addresses:
        why = complaint_about(certificate, key, ca, address)
        if why:
            raise Refused(f"A node could not use this certificate for {address}: {why}.")


def make_files(folder, options, settings):
    """All but etcd.yaml; settings.json is the last of them."""
    if options.ca:
        ca_text, certificate, key = (pathlib.Path(f).read_text() for f in (options.ca, options.certificate, options.key))
        ca_key = None
    else:
        ca_text, ca_key = make_ca()
        certificate, key = make_server_certificate(settings.addresses, ca_text, ca_key)
    peer, peer_key = make_peer_certificate()
    folder.write(folder.root_password, secrets.token_urlsafe(32) + "\n")
    if ca_key:
        folder.write(folder.ca_key, ca_key)
    else:
        folder.ca_key.unlink(missing_ok=True)
    for path, text in ((folder.ca, ca_text), (folder.certificate, certificate), (folder.key, key), (folder.peer, peer),
                       (folder.peer_key, peer_key)):
        folder.write(path, text, shared=True)
    folder.pairs.mkdir(mode=0o700, exist_ok=True)
    folder.write(folder.settings, json.dumps(dataclasses.asdict(settings), indent=2) + "\n")


def addresses_of_this_machine():
    """Those by which it is reached from elsewhere, as the kernel lists them."""
    done = subprocess.run(["ip", "-json", "address", "show", "up", "scope", "global"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    try:
        found = [info["local"] for link in json.loads(done.stdout or "[]") for info in link.get("addr_info", [])
                 if not info.get("temporary") and not info.get("deprecated")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [address for address in found if is_ip(address)]


def only_address():
    try:
        found = addresses_of_this_machine()
    except FileNotFoundError:
        found = []
    if len(found) == 1:
        return found
    raise Refused("Say by which address the nodes reach this machine: --address ADDRESS, which may be repeated."
                  + (f" It has {', '.join(found)}." if found else ""))


def wanted_settings(options):
    addresses = options.address or only_address()
    check_addresses(addresses)
    listen, port = options.listen or LISTEN, options.port or PORT
    return Settings(addresses, listen, port, secrets.token_hex(16))


def keep_settings(folder, options):
    """Those that are here, if nothing else was asked for."""
    settings = Settings.read(folder)
    differs = any(wanted and wanted != kept for wanted, kept in (
        (options.address, settings.addresses), (options.listen, settings.listen), (options.port, settings.port)))
    if differs or options.ca:
        raise Refused(f"There is a witness here already, at {' '.join(settings.endpoints)}. Nothing was changed. "
                      "`lockstep-witness renew` gives it other addresses or another certificate.")
    return settings


def setup(folder, options):
    check_addresses(options.address or [])
    if options.listen and not is_ip(options.listen):
        raise Refused(f"--listen {options.listen} is no IP address.")
    given = (options.ca, options.certificate, options.key)
    if any(given) and not all(given):
        raise Refused("--ca, --certificate and --key belong together.")
    if options.pair:
        named(folder, options.pair)
    wanted = None if folder.settings.exists() else wanted_settings(options)
    if all(given):
        check_certificate(options.certificate, options.key, options.ca, wanted.addresses if wanted else options.address or [])
    folder.prepare()
    with folder.locked():
        if folder.settings.exists():
            settings = keep_settings(folder, options)
        else:
            settings = wanted or wanted_settings(options)
            make_files(folder, options, settings)
        made = set_up_etcd(folder, settings, options)
        print(f"The witness is set up at {' '.join(settings.endpoints)}.")
        if made:
            tell_first_node(*made)
        else:
            print("Next: `lockstep-witness add-pair NAME`.")


def set_up_etcd(folder, settings, options):
    """With its users, and started; gives the pair that was asked for and whether it is in use, or None."""
    made = None if runs_closed(folder, settings) else set_up_users(folder, settings, options)
    start(folder, options)
    if options.pair and not made:
        made = make_pair(folder, as_root(folder), options.pair)
    return (made[0], bool(made[1])) if made else None


def runs_closed(folder, settings):
    """Whether etcd runs, and asks for passwords. One that does not run may have lost its data."""
    if not folder.etcd_yaml.exists():
        return False
    try:
        as_root(folder)
    except TakesEverybody:
        return False
    except DoesNotAnswer:
        return is_listening(settings)  # something else is wrong with it, which this does not mend
    return True


def set_up_users(folder, settings, options):
    """Where etcd has lost them, those of the pairs that are known, too. The pair that was asked for, as make_pair gives it."""
    made, known = None, ", ".join(pair.name for pair in pairs_of(folder))
    check_passwords(folder)
    stop(options)
    if is_listening(settings):
        raise Refused(f"Another program listens at port {settings.port}, perhaps this witness's etcd, which takes everybody. "
                      "Stop it, and run this again.")
    if not folder.has_data():
        folder.keep_from_starting()
    with closed_etcd(folder, settings) as etcd:
        is_new = close_to_others(etcd, folder, lambda etcd: make_known_users(etcd, folder))
        if options.pair:
            made = make_pair(folder, etcd, options.pair)
    folder.write(folder.etcd_yaml, etcd_yaml(folder, settings), shared=True)
    if is_new and known:
        print(f"etcd had no users. Its root is there again, and so are those of the pairs, with their passwords: {known}.")
    return made


def has_systemd():
    return os.path.isdir("/run/systemd/system")


def systemctl(*words):
    done = subprocess.run(["systemctl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"`systemctl {' '.join(words)}` failed: {done.stderr.strip()} `journalctl -u {UNIT}` tells more.")


def stop(options):
    """Also one that does not come up, and is started again and again."""
    if not options.no_start and has_systemd():
        systemctl("stop", UNIT)


def start(folder, options):
    if options.no_start:
        return
    if not has_systemd():
        print(f"There is no systemd here. Start: etcd --config-file {folder.etcd_yaml}")
        return
    systemctl("enable", "--now", UNIT)
    beside = subprocess.run(["systemctl", "is-active", "--quiet", "etcd.service"], check=False)
    if beside.returncode == 0:
        print("etcd.service, which came with the package etcd-server, runs beside the witness and is not needed by it. If "
              "nothing else uses it: systemctl disable --now etcd.service")


def renew(folder, options):
    with folder.locked():
        settings = Settings.read(folder)
        if bool(options.certificate) != bool(options.key):
            raise Refused("--certificate and --key belong together.")
        addresses = options.address or settings.addresses
        check_addresses(addresses)
        if options.certificate:
            check_certificate(options.certificate, options.key, folder.ca, addresses)
            certificate, key = (pathlib.Path(f).read_text() for f in (options.certificate, options.key))
        elif folder.ca_key.exists():
            certificate, key = make_server_certificate(addresses, folder.ca.read_text(), folder.ca_key.read_text())
        else:
            raise Refused("The CA of this witness is not kept here: have it sign another certificate, and give that with "
                          "--certificate and --key.")
        folder.write(folder.key, key, shared=True)
        folder.write(folder.certificate, certificate, shared=True)
        if addresses == settings.addresses:
            print("The witness has another certificate, which it shows from now on.")
            return
        settings.addresses = addresses
        folder.write(folder.settings, json.dumps(dataclasses.asdict(settings), indent=2) + "\n")
        if not folder.etcd_yaml.exists():  # which keeps an etcd without users from being started
            print("The addresses are kept. The witness is not set up to its end: run `lockstep-witness setup`.")
            return
        folder.write(folder.etcd_yaml, etcd_yaml(folder, settings), shared=True)
        if has_systemd() and not options.no_start:
            systemctl("restart", UNIT)
        print(f"The witness is reached at {' '.join(settings.endpoints)}. Tell each pair of it: `lockstep pair witness set`; "
              "`lockstep-witness add-pair NAME` prints the command.")
