// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"
)

func overWebSocket(base, mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, base+"/v1/ws?"+mark, &websocket.DialOptions{Subprotocols: []string{"chat.v1", "chat.v2"}, CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	c.SetReadLimit(1 << 24)
	read := func() []byte {
		_, b, err := c.Read(ctx)
		if err != nil {
			return []byte(err.Error())
		}
		return b
	}
	fmt.Println("me", string(read()))
	fmt.Println("subprotocol", c.Subprotocol())
	c.Write(ctx, websocket.MessageText, []byte("grüße"))
	fmt.Println("text", string(read()))
	big := bytes.Repeat([]byte("large"), 200000)
	c.Write(ctx, websocket.MessageBinary, big)
	fmt.Println("large", bytes.Equal(read(), big))
	pong := make(chan error, 1)
	go func() {
		pong <- c.Ping(ctx)
		c.Write(ctx, websocket.MessageText, []byte("close 4711"))
	}()
	_, _, err = c.Read(ctx)
	fmt.Println("pong", <-pong)
	fmt.Println("close", int(websocket.CloseStatus(err)))
	_, r, err := websocket.Dial(ctx, base+"/v1/hidden?"+mark, nil)
	if err == nil || r == nil {
		fmt.Println("refused", err)
		return
	}
	fmt.Println("refused", r.StatusCode)
}
