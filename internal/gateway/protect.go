package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/rs/cors"
	"google.golang.org/grpc/codes"
)

// protect lets the pages of other origins call only if they are named. Without names
// a browser's page of another origin can neither read an answer nor change a model.
func (g *Gateway) protect(next http.Handler) (http.Handler, error) {
	if slices.Contains(g.Origins, "*") {
		return g.cors(next), nil
	}
	same := http.NewCrossOriginProtection()
	for _, origin := range g.Origins {
		if err := same.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("gateway: origin %q: %w", origin, err)
		}
	}
	same.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.write(w, refuse(http.StatusForbidden, codes.PermissionDenied, "CROSS_ORIGIN",
			fmt.Sprintf("a page of origin %q may not call: the server's --cors-origins does not name it", r.Header.Get("Origin"))))
	}))
	return g.cors(same.Handler(next)), nil
}

// cors says to browsers which origins may call.
func (g *Gateway) cors(next http.Handler) http.Handler {
	if len(g.Origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: g.Origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Content-Type", "Authorization", "Grpc-Timeout", "Traceparent", "Tracestate"},
		ExposedHeaders: []string{"Retry-After", "Content-Disposition"},
		MaxAge:         600,
	}).Handler(next)
}
