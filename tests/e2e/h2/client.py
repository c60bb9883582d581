# SPDX-License-Identifier: Apache-2.0
# A client of HTTP/2 with its hands on every frame, for what ordinary clients do not show. Straight to port 443.
import hashlib, os, socket, ssl, sys, time
import h2.config, h2.connection, h2.errors, h2.events, h2.exceptions, h2.settings
def credit(c, *a):
    try: c.increment_flow_control_window(*a)
    except h2.exceptions.StreamClosedError: pass # its end is among the events still to be looked at
class Stream:
    def __init__(self): self.head, self.interim, self.data, self.n, self.sha, self.trailers, self.reset, self.ended = None, [], b"", 0, hashlib.sha256(), None, None, False; self.log = None # all that came, for who asks
    def status(self): return self.head and dict(self.head)[":status"]
    def over(self): return self.ended or self.reset is not None
    def __str__(self): return "status=%s octets=%d reset=%s ended=%s" % (self.status(), self.n, self.reset, self.ended)
class Client:
    def __init__(self, host, window=1 << 24):
        self.host = host
        x = ssl.create_default_context(); x.set_alpn_protocols(["h2"])
        self.s = x.wrap_socket(socket.create_connection((host, 443), 20), server_hostname=host); self.s.settimeout(30)
        assert self.s.selected_alpn_protocol() == "h2", self.s.selected_alpn_protocol()
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False))
        self.c.initiate_connection(); self.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.c.increment_flow_control_window(1 << 26)
        self.streams, self.goaway, self.slow = {}, None, set(); self.flush(); self.turn() # the server's SETTINGS
    def flush(self):
        d = self.c.data_to_send()
        if d: self.s.sendall(d)
    def request(self, path, method="GET", end=True, more=(), authority=None):
        sid = self.c.get_next_available_stream_id(); self.streams[sid] = Stream()
        self.c.send_headers(sid, [(":method", method), (":scheme", "https"), (":authority", authority or self.host), (":path", path), *more], end_stream=end); self.flush()
        return sid
    def send(self, sid, data, end=True, trailers=None):
        at = 0
        while at < len(data):
            n = min(len(data) - at, self.c.local_flow_control_window(sid), self.c.max_outbound_frame_size)
            if n > 0: self.c.send_data(sid, data[at:at + n]); at += n; self.flush()
            else: self.turn()
            if self.streams[sid].over(): return
        if trailers: self.c.send_headers(sid, trailers, end_stream=True)
        elif end: self.c.end_stream(sid)
        self.flush()
    def cancel(self, sid): self.c.reset_stream(sid, h2.errors.ErrorCodes.CANCEL); self.streams[sid].reset = -1; self.flush()
    def turn(self):
        d = self.s.recv(65536)
        if not d:
            for st in self.streams.values():
                if not st.over(): st.reset = "connection"
            return
        for e in self.c.receive_data(d):
            st = self.streams.get(getattr(e, "stream_id", None))
            if isinstance(e, h2.events.ResponseReceived): st.head = e.headers
            elif isinstance(e, h2.events.InformationalResponseReceived): st.interim.append(dict(e.headers)[":status"])
            elif isinstance(e, h2.events.DataReceived):
                st.n += len(e.data); st.sha.update(e.data); st.data = (st.data + e.data)[:4096]
                if st.log is not None: st.log += e.data
                if e.flow_controlled_length: credit(self.c, e.flow_controlled_length)
                if e.flow_controlled_length and e.stream_id not in self.slow: credit(self.c, e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.TrailersReceived): st.trailers = e.headers
            elif isinstance(e, h2.events.StreamEnded): st.ended = True
            elif isinstance(e, h2.events.StreamReset):
                if st is not None: st.reset = int(e.error_code)
            elif isinstance(e, h2.events.ConnectionTerminated): self.goaway = int(e.error_code)
        self.flush()
    def wait(self, *sids):
        while not all(self.streams[i].over() for i in sids): self.turn()
        return self.streams[sids[0]]
    def get(self, path, **k): return self.wait(self.request(path, **k))
    def post(self, path, body, trailers=None, **k):
        sid = self.request(path, "POST", end=False, **k); self.send(sid, body, trailers=trailers); return self.wait(sid)
