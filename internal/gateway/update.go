package gateway

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// names leads to the server. It gives the paths of an update's mask the names of the
// proto files: the generated code takes them from the query as they are.
type names struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (n names) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	if update, ok := request.(*hindsightv1.UpdateModelRequest); ok && update.GetUpdateMask() != nil {
		mask := update.GetUpdateMask()
		for i, path := range mask.GetPaths() {
			// What follows a dot is the key of a label, which may have any name.
			field, key, isKey := strings.Cut(path, ".")
			mask.Paths[i] = snake(field)
			if isKey {
				mask.Paths[i] += "." + key
			}
		}
		// Without a mask in the query the generated code takes each field of the body for
		// one to change, and an empty body for a field without a name. The id and the etag say
		// which model is meant.
		mask.Paths = slices.DeleteFunc(mask.GetPaths(), func(path string) bool { return path == "" || path == "id" || path == "etag" })
	}
	return n.ClientConnInterface.Invoke(ctx, method, request, response, options...)
}
