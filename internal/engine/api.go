package engine

import (
	"errors"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/replica"
	"hindsight/internal/engine/watch"
	"hindsight/internal/model"
)

//nolint:revive // One comment is of all: the types that callers of the engine use, in the packages that declare them.
type (
	// ModelOptions are the options of each model.
	ModelOptions = hosted.Options
	// Replication are the options of a replicated store.
	Replication = hosted.Replication
	// Limits bound what models take.
	Limits          = hosted.Limits
	Timings         = hosted.Timings
	Row             = hosted.Row
	Prediction      = hosted.Prediction
	PredictOptions  = hosted.PredictOptions
	Observation     = hosted.Observation
	Answer          = hosted.Answer
	Ticket          = hosted.Ticket
	Snapshot        = hosted.Snapshot
	ExportOptions   = hosted.ExportOptions
	RowError        = hosted.RowError
	Info            = figures.Info
	Figures         = figures.Figures
	LearnedInput    = figures.LearnedInput
	Stats           = figures.Stats
	StatsOptions    = figures.StatsOptions
	InputStatistics = figures.InputStatistics
	KeyEffect       = figures.KeyEffect
	ClassStatistics = figures.ClassStatistics
	Live            = figures.Live
	History         = figures.History
	ListOptions     = figures.ListOptions
	Order           = figures.Order
	Cursor          = figures.Cursor
	Page            = figures.Page
	Learned         = watch.Learned
	Alias           = alias.Alias
	Comparison      = replica.Comparison
	// Metadata is what may change of a model. LabelTTL and MaxPending are 0 where the server decides.
	Metadata = record.Metadata
)

// The orders of a list, and the states of a model.
const (
	ByID          = figures.ByID
	BySequence    = figures.BySequence
	ByCreated     = figures.ByCreated
	ByRecentLoss  = figures.ByRecentLoss
	ByRecentSkill = figures.ByRecentSkill
	ByRegret      = figures.ByRegret
	ByRate        = figures.ByRate
	ByHealth      = figures.ByHealth

	StateLoaded     = figures.StateLoaded
	StateHibernated = figures.StateHibernated

	// NoModel is the expected model of an alias that must not exist.
	NoModel = alias.NoModel
)

// NotFoundError is an ErrModelNotFound that names the model.
type NotFoundError = hosted.NotFoundError

// Reasons to reject a call, with the reasons of the packages below.
var (
	ErrModelExists  = errors.New("model exists")
	ErrModelDeleted = errors.New("a deleted model has the id")
	ErrModelLimit   = errors.New("as many models as the server may hold")
	ErrAliased      = errors.New("aliases name the model")
	ErrEtag         = errors.New("the model has changed")
	ErrLabelMissing = errors.New("label missing")

	ErrModelNotFound      = hosted.ErrModelNotFound
	ErrInvalidID          = hosted.ErrInvalidID
	ErrInvalidRequest     = hosted.ErrInvalidRequest
	ErrSnapshotNotFound   = hosted.ErrSnapshotNotFound
	ErrPredictionNotFound = hosted.ErrPredictionNotFound
	ErrConflict           = hosted.ErrConflict
	ErrOverloaded         = hosted.ErrOverloaded
	ErrPendingLimit       = hosted.ErrPendingLimit
	ErrFollows            = hosted.ErrFollows
	ErrUnknown            = hosted.ErrUnknown
	ErrClosed             = hosted.ErrClosed
	ErrCorrupt            = hosted.ErrCorrupt
	ErrStorage            = hosted.ErrStorage
	ErrNotOwner           = hosted.ErrNotOwner
	ErrWatcherLimit       = watch.ErrLimit
	ErrAliasNotFound      = alias.ErrNotFound
	ErrAliasExists        = alias.ErrExists
	ErrAliasChanged       = alias.ErrChanged
	ErrAliasLimit         = alias.ErrLimit
)

// Invalid is hosted.Invalid.
func Invalid(field, got, want string) *model.FieldError { return hosted.Invalid(field, got, want) }

// CheckRows is hosted.CheckRows.
func CheckRows(rows int, check func(row int) error) error { return hosted.CheckRows(rows, check) }

// RejectedRows is hosted.RejectedRows.
func RejectedRows(err error) hosted.RowErrors { return hosted.RejectedRows(err) }
