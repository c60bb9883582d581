// SPDX-License-Identifier: Apache-2.0

//go:build tools

// What `go build` is to build here, at the versions of go.mod and the hashes of go.sum.
package main

import _ "github.com/summerwind/h2spec/cmd/h2spec"
