module connect-client

go 1.19

require (
	connectrpc.com/connect v1.11.1
	google.golang.org/protobuf v1.31.0
)
