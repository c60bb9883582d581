// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func do(method, url string, body io.Reader) (string, []byte) {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return "error", []byte(err.Error())
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "error", []byte(err.Error())
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return "error", []byte(err.Error())
	}
	return fmt.Sprint(r.StatusCode), b
}

func show(word, method, url string, body io.Reader) {
	status, b := do(method, url, body)
	fmt.Println(word, status, strings.TrimSpace(string(b)))
}

func main() {
	if os.Args[1] == "ws" {
		overWebSocket(os.Args[2], os.Args[3])
		return
	}
	base, mark, file := os.Args[1], os.Args[2], os.Args[3]
	show("allowed", "GET", base+"/v1/hello?"+mark, nil)
	show("refused", "DELETE", base+"/v1/hello?"+mark, nil)
	show("elsewhere", "GET", "https://elsewhere.test/", nil)
	_, b := do("GET", base+"/v1/big?"+mark, nil)
	fmt.Printf("down %x\n", sha256.Sum256(b))
	blob, _ := os.ReadFile(file)
	show("up", "PUT", base+"/v1/up?"+mark, bytes.NewReader(blob))
	// A reader of unknown length goes in chunks.
	show("chunked", "PUT", base+"/v1/up?"+mark, io.MultiReader(bytes.NewReader(blob)))
}
