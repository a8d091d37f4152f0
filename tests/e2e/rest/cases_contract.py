"""That the check of replies against the description (contract.py) sees what it should; no node is asked."""
import copy
import json
import unittest

import scratch
from nodes import Reply


class Answered:
    """As http.client's response."""

    def __init__(self, status, kind="application/problem+json"):
        self.status, self.headers = status, {"Content-Type": kind}


def problem(status, kind):
    return Reply(Answered(status), json.dumps({"type": f"urn:lockstep:problem:{kind}", "title": "t", "status": status,
                                               "detail": f"node-a {kind}."}).encode())


class Contract(unittest.TestCase):
    def setUp(self):
        self.contract = copy.copy(scratch.CONTRACT)
        self.contract.seen = set()  # what is met here was given by no node

    def complaints(self, method, path, reply):
        return self.contract.check_reply(method, path, reply)

    def test_a_described_status_is_right(self):
        self.assertEqual(self.complaints("DELETE", "/api/v1/jobs/x", problem(405, "method-not-allowed")), [])
        self.assertEqual(self.complaints("POST", "/api/v1/pair", problem(409, "no-pair")), [])
        self.assertEqual(self.complaints("POST", "/api/v1/pair", problem(413, "too-large")), [])

    def test_a_status_that_is_not_described_is_a_breach_whatever_its_problem(self):
        for status, kind in ((404, "not-found"), (409, "conflict"), (429, "too-many"), (503, "not-current"), (500, "internal")):
            self.assertTrue(self.complaints("GET", "/api/v1/pair", problem(status, kind)), kind)

    def test_a_problem_whose_type_has_another_status_is_a_breach(self):
        self.assertTrue(self.complaints("GET", "/api/v1/pair", problem(401, "forbidden")))
        self.assertTrue(self.complaints("POST", "/api/v1/pair", problem(413, "unsupported-media-type")))

    def test_an_operation_that_is_not_described_is_a_breach(self):
        self.assertTrue(self.complaints("GET", "/api/v1/secret", Reply(Answered(200, "application/json"), b"{}")))
        self.assertTrue(self.complaints("PUT", "/api/v1/pair", Reply(Answered(200, "application/json"), b"{}")))
        self.assertEqual(self.complaints("GET", "/api/v1/secret", problem(404, "not-found")), [])
