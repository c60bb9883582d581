// SPDX-License-Identifier: Apache-2.0

// gRPC as Go makes it, without generated code: TARGET, and what tests/e2e/http2.sh's server offers.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(d []byte, v any) error { *v.(*[]byte) = append([]byte(nil), d...); return nil }
func (raw) Name() string                    { return "raw" }

func tell(name string, out []byte, err error) {
	if err != nil {
		s := status.Convert(err)
		fmt.Println(name, s.Code(), s.Message())
		return
	}
	if len(out) > 30 {
		out = out[:30]
	}
	fmt.Printf("%s %q\n", name, out)
}

func main() {
	creds, err := credentials.NewClientTLSFromFile(os.Getenv("SSL_CERT_FILE"), "")
	if err != nil {
		panic(err)
	}
	c, err := grpc.Dial(os.Args[1], grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		panic(err)
	}
	call := func(name, method string, in []byte, limit time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		var out []byte
		err := c.Invoke(ctx, "/pkg.Echo/"+method, &in, &out)
		tell(name, out, err)
	}
	call("unary", "Unary", make([]byte, 100000), 20*time.Second)
	call("missing", "Missing", []byte("x"), 20*time.Second)
	call("denied", "Denied", []byte("x"), 20*time.Second)
	call("deadline", "Hang", []byte("x"), time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/pkg.Echo/Both")
	for _, w := range []string{"one", "two", "three"} {
		in, out := []byte(w), []byte(nil)
		if err == nil {
			err = s.SendMsg(&in)
		}
		if err == nil {
			err = s.RecvMsg(&out)
		}
		tell("both", out, err)
	}
	if err == nil {
		s.CloseSend()
		var out []byte
		fmt.Println("end", s.RecvMsg(&out) == io.EOF)
	}
}
