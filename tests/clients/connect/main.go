// SPDX-License-Identifier: Apache-2.0
// The Connect protocol on connectrpc.com/connect: `serve ADDRESS LOG CERT KEY h1|h2`, or as a client `call BASE h1|h2`.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type text = wrapperspb.StringValue

func serve(address, log, cert, key, version string) {
	f, _ := os.Create(log)
	tell := func(what string, h http.Header, p connect.Peer) { fmt.Fprintln(f, what, p.Protocol, h.Get("Authorization")) }
	m := http.NewServeMux()
	m.Handle("/t.S/Unary", connect.NewUnaryHandler("/t.S/Unary", func(_ context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
		tell("unary", r.Header(), r.Peer())
		if r.Msg.Value == "fail" {
			return nil, connect.NewError(connect.CodeAborted, errors.New("sent "+r.Header().Get("Authorization")))
		}
		a := connect.NewResponse(wrapperspb.String("you sent " + r.Header().Get("Authorization")))
		a.Trailer().Set("x-end", r.Header().Get("Authorization"))
		return a, nil
	}, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	m.Handle("/t.S/Down", connect.NewServerStreamHandler("/t.S/Down", func(ctx context.Context, r *connect.Request[text], s *connect.ServerStream[text]) error {
		tell("down", r.Header(), r.Peer())
		for i := 0; i < 3; i++ {
			s.Send(wrapperspb.String(fmt.Sprint(i, " ", r.Header().Get("Authorization"))))
		}
		return connect.NewError(connect.CodeAborted, errors.New("end "+r.Header().Get("Authorization")))
	}))
	m.Handle("/t.S/Up", connect.NewClientStreamHandler("/t.S/Up", func(ctx context.Context, s *connect.ClientStream[text]) (*connect.Response[text], error) {
		tell("up", s.RequestHeader(), s.Peer())
		n := 0
		for s.Receive() {
			n += len(s.Msg().Value)
		}
		return connect.NewResponse(wrapperspb.String(fmt.Sprint(n))), nil
	}))
	m.Handle("/t.S/Both", connect.NewBidiStreamHandler("/t.S/Both", func(ctx context.Context, s *connect.BidiStream[text, text]) error {
		tell("both", s.RequestHeader(), s.Peer())
		for {
			t, err := s.Receive()
			if err != nil {
				return nil
			}
			s.Send(wrapperspb.String("echo " + t.Value))
		}
	}))
	s := &http.Server{Addr: address, Handler: m}
	if version == "h1" {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	fmt.Fprintln(f, "up")
	fmt.Fprintln(f, s.ListenAndServeTLS(cert, key))
}

func show(what string, a ...any) { fmt.Println(append([]any{what}, a...)...) }

func call(base, version string) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: version == "h2"}
	if version == "h1" {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	c := &http.Client{Transport: t}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for name, options := range map[string][]connect.ClientOption{"proto": nil, "json": {connect.WithProtoJSON()}, "get": {connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)}} {
		at := func(m string) *connect.Client[text, text] { return connect.NewClient[text, text](c, base+m, options...) }
		r, err := at("/t.S/Unary").CallUnary(ctx, connect.NewRequest(wrapperspb.String("x")))
		if err != nil {
			show(name+" unary", err)
		} else {
			show(name+" unary", r.Msg.Value, "trailer", r.Trailer().Get("x-end"))
		}
		_, err = at("/t.S/Unary").CallUnary(ctx, connect.NewRequest(wrapperspb.String("fail")))
		show(name+" fail", connect.CodeOf(err), err)
		_, err = at("/t.S/Denied").CallUnary(ctx, connect.NewRequest(wrapperspb.String("x")))
		show(name+" denied", connect.CodeOf(err), err)
		d, err := at("/t.S/Down").CallServerStream(ctx, connect.NewRequest(wrapperspb.String("x")))
		for err == nil && d.Receive() {
			show(name+" down", d.Msg().Value)
		}
		if err == nil {
			err = d.Err()
		}
		show(name+" down-end", connect.CodeOf(err), err)
		d, err = at("/t.S/Denied/Down").CallServerStream(ctx, connect.NewRequest(wrapperspb.String("x")))
		if err == nil {
			d.Receive()
			err = d.Err()
		}
		show(name+" down-denied", connect.CodeOf(err), err)
		u := at("/t.S/Up").CallClientStream(ctx)
		for i := 0; i < 10; i++ {
			u.Send(wrapperspb.String("0123456789"))
		}
		r, err = u.CloseAndReceive()
		if err != nil {
			show(name+" up", err)
		} else {
			show(name+" up", r.Msg.Value)
		}
		if version == "h2" { // each answer comes before the next is asked
			b := at("/t.S/Both").CallBidiStream(ctx)
			for i := 0; i < 3; i++ {
				b.Send(wrapperspb.String(fmt.Sprint(i)))
				m, err := b.Receive()
				if err != nil {
					show(name+" both", err)
					break
				}
				show(name+" both", m.Value)
			}
			b.CloseRequest()
			b.CloseResponse()
		}
	}
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
	} else {
		call(os.Args[2], os.Args[3])
	}
}
