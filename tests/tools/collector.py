"""collector.py DIRECTORY: an OpenTelemetry collector's OTLP/HTTP end, as strict as the specification lets one be.

Listens on a free port of 127.0.0.1 and writes it into DIRECTORY/port. What is wrong with a request goes into DIRECTORY/faults, a line each;
spans, one JSON object a line, into DIRECTORY/spans. DIRECTORY/mode says how to answer, and may change at any time:
  take            200 (where there is no such file, too)
  refuse CODE [RETRY-AFTER]
  partial N TEXT  200, but N of them were not wanted
  hang            no answer
Each request is a line "TIME MODE COUNT" in DIRECTORY/requests.

The names, types and rules are those of opentelemetry-proto 1.x (collector/trace/v1/trace_service.proto, trace/v1/trace.proto,
common/v1/common.proto, resource/v1/resource.proto), the JSON mapping of proto3, and its exceptions in the OTLP specification ("JSON Protobuf
Encoding"): ids in hexadecimal, enumerations as integers, lowerCamelCase names.
"""
import http.server, json, os, re, sys, threading, time

where = sys.argv[1]
U64 = 2**64 - 1
lock = threading.Lock()


class Fault(Exception):
    pass


def fault(at, what):
    raise Fault("%s: %s" % (at, what))


def text(at, v):
    if not isinstance(v, str):
        fault(at, "no string: %r" % (v,))


def boolean(at, v):
    if not isinstance(v, bool):
        fault(at, "no bool: %r" % (v,))


def number(at, v):
    if isinstance(v, bool) or not isinstance(v, (int, float, str)):
        fault(at, "no number: %r" % (v,))


def u32(at, v):
    if isinstance(v, bool) or not isinstance(v, int) or not 0 <= v < 2**32:
        fault(at, "no uint32: %r" % (v,))


def i64(at, v):  # proto3 JSON writes 64-bit integers as decimal strings
    if not isinstance(v, str) or not re.fullmatch(r"-?(0|[1-9][0-9]*)", v) or not -2**63 <= int(v) < 2**63:
        fault(at, "no int64 in a string: %r" % (v,))


def fixed64(at, v):
    if not isinstance(v, str) or not re.fullmatch(r"0|[1-9][0-9]*", v) or int(v) > U64:
        fault(at, "no fixed64 in a string: %r" % (v,))


def hexadecimal(digits, zero=False):
    def check(at, v):
        if not isinstance(v, str) or not re.fullmatch("[0-9a-fA-F]{%d}" % digits, v):
            fault(at, "no id of %d hexadecimal digits: %r" % (digits, v))
        if not zero and set(v) == {"0"}:
            fault(at, "an id of zeros")
    return check


def enumeration(*values):
    def check(at, v):
        if isinstance(v, bool) or not isinstance(v, int) or v not in values:
            fault(at, "not one of %r as an integer: %r" % (values, v))
    return check


def listing(of):
    def check(at, v):
        if not isinstance(v, list):
            fault(at, "no list")
        for i, x in enumerate(v):
            of("%s[%d]" % (at, i), x)
    return check


def message(fields, required=(), one_of=False):
    def check(at, v):
        if not isinstance(v, dict):
            fault(at, "no object")
        table = fields() if callable(fields) else fields
        for k, x in v.items():
            if k not in table:
                fault(at, "no such field: %s" % k)
            table[k](at + "." + k, x)
        for k in required:
            if k not in v:
                fault(at, "%s is missing" % k)
        if one_of and len(v) > 1:
            fault(at, "more than one of a oneof: %r" % list(v))
    return check


any_value = message(lambda: {"stringValue": text, "boolValue": boolean, "intValue": i64, "doubleValue": number, "bytesValue": text,
                             "arrayValue": message({"values": listing(any_value)}), "kvlistValue": message({"values": listing(key_value)})}, one_of=True)
key_value = message(lambda: {"key": text, "value": any_value}, ("key",))


def attributes(at, v):
    listing(key_value)(at, v)
    keys = [x["key"] for x in v]
    if len(keys) != len(set(keys)):
        fault(at, "a key is there twice")
    if "" in keys:
        fault(at, "an empty key")


event = message({"timeUnixNano": fixed64, "name": text, "attributes": attributes, "droppedAttributesCount": u32}, ("name",))
link = message({"traceId": hexadecimal(32), "spanId": hexadecimal(16), "traceState": text, "attributes": attributes, "droppedAttributesCount": u32, "flags": u32}, ("traceId", "spanId"))
status = message({"message": text, "code": enumeration(0, 1, 2)})
span = message({"traceId": hexadecimal(32), "spanId": hexadecimal(16), "traceState": text, "parentSpanId": hexadecimal(16), "flags": u32, "name": text,
                "kind": enumeration(0, 1, 2, 3, 4, 5), "startTimeUnixNano": fixed64, "endTimeUnixNano": fixed64, "attributes": attributes,
                "droppedAttributesCount": u32, "events": listing(event), "droppedEventsCount": u32, "links": listing(link), "droppedLinksCount": u32,
                "status": status}, ("traceId", "spanId", "name", "startTimeUnixNano", "endTimeUnixNano"))
scope = message({"name": text, "version": text, "attributes": attributes, "droppedAttributesCount": u32})
scope_spans = message({"scope": scope, "spans": listing(span), "schemaUrl": text}, ("spans",))
resource = message({"attributes": attributes, "droppedAttributesCount": u32})
resource_spans = message({"resource": resource, "scopeSpans": listing(scope_spans), "schemaUrl": text}, ("scopeSpans",))
request = message({"resourceSpans": listing(resource_spans)}, ("resourceSpans",))


def once(pairs):
    out = {}
    for k, v in pairs:
        if k in out:
            fault("json", "the name %s twice in an object" % k)
        out[k] = v
    return out


def judge(body):
    """The spans of a request, each with its resource's attributes."""
    try:
        whole = json.loads(body.decode("utf-8", "strict"), object_pairs_hook=once)
    except (UnicodeDecodeError, ValueError) as e:
        raise Fault("json: %s" % e)
    request("request", whole)
    out = []
    for r in whole["resourceSpans"]:
        about = {a["key"]: a["value"].get("stringValue") for a in r.get("resource", {}).get("attributes", [])}
        if not about.get("service.name"):
            fault("resource", "service.name is missing")
        for s in r["scopeSpans"]:
            for one in s["spans"]:
                if int(one["endTimeUnixNano"]) < int(one["startTimeUnixNano"]):
                    fault(one["name"], "ends before it begins")
                if not one["name"]:
                    fault("span", "an empty name")
                if one.get("parentSpanId") == one["spanId"]:
                    fault(one["name"], "its own parent")
                out.append(dict(one, resource=about))
    if not out:
        fault("request", "no spans")
    return out


def write(name, line):
    with lock, open(os.path.join(where, name), "a") as f:
        f.write(line + "\n")


def mode():
    try:
        return open(os.path.join(where, "mode")).read().split() or ["take"]
    except OSError:
        return ["take"]


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(code)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        now = mode()
        try:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/v1/traces":
                fault("path", self.path)
            if self.headers.get("Content-Type", "").split(";")[0].strip() != "application/json":
                fault("Content-Type", self.headers.get("Content-Type"))
            if not self.headers.get("User-Agent"):
                fault("User-Agent", "missing")
            spans = judge(body)
        except Fault as e:
            write("faults", str(e))
            return self.answer(400, {"code": 3, "message": str(e)})
        write("requests", "%.3f %s %d" % (time.time(), now[0], len(spans)))
        if now[0] == "hang":
            while mode()[0] == "hang":
                time.sleep(0.1)
            self.close_connection = True
            return
        if now[0] == "refuse":
            return self.answer(int(now[1]), {"code": 14, "message": "not now"}, [("Retry-After", now[2])] if len(now) > 2 else [])
        for s in spans:
            write("spans", json.dumps(s))
        if now[0] == "partial":
            return self.answer(200, {"partialSuccess": {"rejectedSpans": now[1], "errorMessage": " ".join(now[2:])}})
        self.answer(200, {})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


port = 0
try:
    port = int(open(os.path.join(where, "port")).read())  # again, where it was before
except (OSError, ValueError):
    pass
Server.allow_reuse_address = True
server = Server(("127.0.0.1", port), Collector)
with open(os.path.join(where, "port.new"), "w") as f:
    f.write(str(server.server_address[1]))
os.rename(os.path.join(where, "port.new"), os.path.join(where, "port"))
server.serve_forever()
