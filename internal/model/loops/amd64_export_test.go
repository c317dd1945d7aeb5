//go:build amd64 && !purego

package loops

// TurnAVX2 is TurnRows with AVX-512 for rows of wide entries or more.
var TurnAVX2 = turnAVX2

// TurnGroupsAVX2 is TurnGroups with AVX-512 for rows of wide entries or more.
var TurnGroupsAVX2 = turnGroupsAVX2
