package access

import "context"

// FetchKeys asks the URL once.
func (a *Access) FetchKeys(ctx context.Context) { a.fetchKeys(ctx) }
