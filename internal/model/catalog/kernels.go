package catalog

import (
	"fmt"
	"math"
	"strings"

	"hindsight/internal/model"
	"hindsight/internal/model/kernel"
)

const maxDegree = 10 // Of the polynomial kernel.

func kinds() []kernel.Kind {
	return []kernel.Kind{
		kernel.Gaussian, kernel.Laplacian, kernel.Matern12, kernel.Matern32, kernel.Matern52,
		kernel.Cauchy, kernel.RationalQuadratic, kernel.Polynomial, kernel.Linear,
	}
}

// kernel completes a kernel, Gaussian with σ = 1 by default, and rejects parameters that it has not.
func (c *completion) kernel(name string, field **model.Kernel) kernel.Kernel {
	given := new(model.Kernel)
	if *field != nil {
		*given = **field
	}
	*field = given
	if given.Kind == "" {
		given.Kind = string(kernel.Gaussian)
	}
	k := kernel.Kernel{Kind: kernel.Kind(given.Kind)}
	known := false
	var names []string
	for _, kind := range kinds() {
		known = known || kind == k.Kind
		names = append(names, string(kind))
	}
	if !known {
		c.reject(name+".kind", given.Kind, "one of "+strings.Join(names, ", "))
		return k
	}
	none := "nothing: a " + given.Kind + " kernel has none"
	for _, p := range []struct {
		name  string
		used  bool
		field **float64
		to    *float64
	}{
		{"sigma", k.ShiftInvariant(), &given.Sigma, &k.Sigma},
		{"alpha", k.Kind == kernel.RationalQuadratic, &given.Alpha, &k.Alpha},
		{"offset", k.Kind == kernel.Polynomial, &given.Offset, &k.Offset},
	} {
		switch at := name + "." + p.name; {
		case p.used:
			*p.to = c.scale(at, p.field, 1)
		case *p.field != nil:
			c.reject(at, **p.field, none)
		}
	}
	switch at := name + ".degree"; {
	case k.Kind == kernel.Polynomial:
		k.Degree = c.whole(at, &given.Degree, 2, maxDegree)
	case given.Degree != nil:
		c.reject(at, *given.Degree, none)
	}
	return k
}

// keepsRidge rejects a polynomial kernel with offset^degree, which is k(x,x) at x = 0, above
// limit·ridge: the Gram matrix then rounds the ridge away at every input.
func (c *completion) keepsRidge(k kernel.Kernel, name string, ridge, limit float64) {
	if k.Kind == kernel.Polynomial && !(math.Pow(k.Offset, float64(k.Degree)) <= limit*ridge) {
		c.reject("kernel.offset", k.Offset, fmt.Sprintf("at most %g: offset^degree is at most %g %s",
			math.Pow(limit*ridge, 1/float64(k.Degree)), limit, name))
	}
}

func (c *completion) spectral(name string, field **model.Kernel, want string) kernel.Kernel {
	k := c.kernel(name, field)
	if !k.Spectral() {
		c.reject(name+".kind", k.Kind, want)
	}
	return k
}
