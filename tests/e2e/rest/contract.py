"""The API's description, read: finds the operation of a request and checks replies (and bodies) against its schemas.

The subset of JSON Schema 2020-12 that the description uses; a keyword that is not known here is an error, so that the
check cannot pass for want of understanding.
"""
import re

import yaml

KNOWN = {"type", "properties", "required", "additionalProperties", "minProperties", "items", "enum", "pattern", "minimum", "maximum",
         "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "oneOf", "allOf", "$ref",
         "format", "description", "examples", "example", "default", "writeOnly", "title"}
EVERYWHERE = (405, 413, 415)  # described once, in the introduction's table
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


class Contract:
    def __init__(self, path):
        self.document = yaml.safe_load(path.read_text())
        self.seen = set()  # (operation id, status) that were met and found right

    def resolve(self, thing):
        while isinstance(thing, dict) and "$ref" in thing:
            rest = {k: v for k, v in thing.items() if k != "$ref"}
            target = self.document
            for part in thing["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            thing = {**target, **rest}
        return thing

    def operations(self):
        for path, item in self.document["paths"].items():
            for method in ("get", "post", "put", "patch", "delete"):
                if method in item:
                    yield path, method.upper(), item[method]

    def find(self, method, path):
        plain = path.split("?")[0]
        for pattern, m, operation in sorted(self.operations(), key=lambda o: o[0].count("{")):
            expression = re.sub(r"\{[^}]+\}", "[^/]+", pattern)
            if m == method and re.fullmatch(expression, plain):
                return operation
        return None

    def check_reply(self, method, path, reply):
        """Problems of a reply, as sentences; notes what was covered."""
        operation = self.find(method, path)
        if operation is None:
            return self.check_undescribed(method, path, reply)
        where = f"{operation['operationId']} {reply.status}"
        documented = operation["responses"].get(str(reply.status))
        if documented is None:
            if reply.status in EVERYWHERE:
                return self.check_problem(reply, where)
            return [f"{where}: this status is not described: {reply!r}"]
        documented = self.resolve(documented)
        problems = []
        for name in documented.get("headers", {}):
            if name not in reply.headers:
                problems.append(f"{where}: the header {name} is missing")
        content = documented.get("content")
        if content is None:
            if reply.raw:
                problems.append(f"{where}: has a body")
        elif reply.type not in content:
            problems.append(f"{where}: is {reply.type}, not {' or '.join(content)}")
        elif reply.type.endswith("json"):
            problems += (self.check_problem(reply, where) if reply.type == "application/problem+json"
                         else self.check(reply.json, content[reply.type]["schema"], where))
        if not problems:
            self.seen.add((operation["operationId"], str(reply.status)))
        return problems

    def check_undescribed(self, method, path, reply):
        """Of a path or a method of the API that the description does not have: there is none, or nobody may know of it."""
        if method == "HEAD" or not path.startswith("/api/v1/"):
            return []
        where = f"{method} {path} {reply.status}"
        if reply.status not in (401, 404, 405):
            return [f"{where}: this operation is not described: {reply!r}"]
        return self.check_problem(reply, where)

    def check_problem(self, reply, where):
        if reply.type != "application/problem+json":
            return [f"{where}: is {reply.type}, not a problem"]
        problem = reply.json
        if wrong := self.check(problem, {"$ref": "#/components/schemas/Problem"}, where):
            return wrong
        table = re.findall(r"`(urn:lockstep:problem:[a-z-]+)` \| (\d+)", self.document["info"]["description"])
        if (problem["type"], str(reply.status)) not in table:
            return [f"{where}: the type {problem['type']} is not in the table with status {reply.status}"]
        return [] if problem["status"] == reply.status else [f"{where}: status differs from the status line"]

    def request_schema(self, operation):
        body = operation.get("requestBody")
        return body and body["content"]["application/json"]["schema"]

    def check(self, value, schema, where):
        schema = self.resolve(schema)
        unknown = set(schema) - KNOWN
        if unknown:
            return [f"{where}: this check does not know {unknown}"]
        problems = []
        for part in schema.get("allOf", []):
            problems += self.check(value, part, where)
        if "oneOf" in schema:
            fitting = [s for s in schema["oneOf"] if not self.check(value, s, where)]
            if len(fitting) != 1:
                problems.append(f"{where}: {value!r} fits {len(fitting)} of oneOf")
        if "enum" in schema and value not in schema["enum"]:
            problems.append(f"{where}: {value!r} is none of {schema['enum']}")
        if "type" in schema:
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(self.is_type(value, t) for t in types):
                return problems + [f"{where}: {value!r} is not {types}"]
        if isinstance(value, str):
            problems += self.check_text(value, schema, where)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            problems += self.check_number(value, schema, where)
        elif isinstance(value, list):
            problems += self.check_list(value, schema, where)
        elif isinstance(value, dict):
            problems += self.check_object(value, schema, where)
        return problems

    @staticmethod
    def is_type(value, name):
        if name == "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        if name == "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return isinstance(value, TYPES[name])

    @staticmethod
    def check_text(value, schema, where):
        problems = []
        if "pattern" in schema and not re.search(schema["pattern"], value):
            problems.append(f"{where}: {value!r} does not match {schema['pattern']}")
        if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", len(value)):
            problems.append(f"{where}: {value!r} has a wrong length")
        if schema.get("format") == "date-time" and not re.fullmatch(
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
            problems.append(f"{where}: {value!r} is no time in UTC")
        return problems

    @staticmethod
    def check_number(value, schema, where):
        wrong = (value < schema.get("minimum", value) or value > schema.get("maximum", value)
                 or ("multipleOf" in schema and value % schema["multipleOf"]))
        return [f"{where}: {value} is out of its range"] if wrong else []

    def check_list(self, value, schema, where):
        problems = []
        if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
            problems.append(f"{where}: has {len(value)} items")
        if schema.get("uniqueItems") and len({str(v) for v in value}) != len(value):
            problems.append(f"{where}: items are not unique")
        for i, item in enumerate(value):
            problems += self.check(item, schema.get("items", {}), f"{where}[{i}]")
        return problems

    def check_object(self, value, schema, where):
        problems = [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
        properties = schema.get("properties", {})
        if len(value) < schema.get("minProperties", 0):
            problems.append(f"{where}: has too few fields")
        for name, item in value.items():
            if name in properties:
                problems += self.check(item, properties[name], f"{where}.{name}")
            elif schema.get("additionalProperties") is False:
                problems.append(f"{where}: {name} is not described")
        return problems

    def undescribed(self, value, schema, where):
        """Fields of a reply that the description does not have: allowed by it, but not by us."""
        schema = self.resolve(schema)
        if isinstance(value, list):
            return [p for i, v in enumerate(value) for p in self.undescribed(v, schema.get("items", {}), f"{where}[{i}]")]
        if not isinstance(value, dict):
            return []
        parts = [schema] + [self.resolve(s) for s in schema.get("allOf", []) + schema.get("oneOf", [])]
        properties = {k: v for part in parts for k, v in part.get("properties", {}).items()}
        found = []
        for name, item in value.items():
            if properties and name not in properties:
                found.append(f"{where}: {name} is not described")
            else:
                found += self.undescribed(item, properties.get(name, {}), f"{where}.{name}")
        return found
