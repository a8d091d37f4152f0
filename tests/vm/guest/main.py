"""Runs one scenario inside the guest and leaves its result on the host's share."""
import importlib
import json
import os
import pathlib
import signal
import sys
import traceback

HOST = pathlib.Path("/host")
sys.path[:0] = ["/lab/tests/e2e", "/lab/tests/vm/guest", "/lab/tests/vm/scenarios", "/lab/tests/bench/vm"]
import harness  # noqa: E402


def out_of_time(*_):
    raise harness.Failed("no end in time, by the guest's clock")


def main():
    job = json.loads((HOST / "job.json").read_text())
    os.environ.update(job["environment"])
    os.environ["LOCKSTEP_E2E_FOLDER"] = "/scratch"
    harness.settings.build = pathlib.Path("/tmp/build")
    result = {"status": "failed", "note": "the scenario ended the process"}
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(job["seconds"])
    try:
        note = importlib.import_module(job["scenario"]).scenario()
        result = {"status": "passed", "note": note or ""}
    except harness.Skipped as why:
        result = {"status": "skipped", "note": str(why)}
    except harness.Failed as why:
        result = {"status": "failed", "note": str(why)}
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        result = {"status": "failed", "note": f"{type(error).__name__}: {error}"}
    finally:
        (HOST / "result.json").write_text(json.dumps(result))
        print(f"{job['scenario']}: {result['status']} {result['note']}", flush=True)


main()
