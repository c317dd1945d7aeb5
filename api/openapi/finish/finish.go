package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "hindsight/api/proto/hindsight/v1" // It registers the messages.
)

type object = map[string]any

const (
	schemaPath = "#/components/schemas/"
	protoNames = "hindsight.v1."
)

// merge puts a document into another, member by member. Lists are put together; null
// removes a member.
func merge(into, from object) {
	for key, value := range from {
		part, ok := value.(object)
		old, both := into[key].(object)
		list, isList := value.([]any)
		before, lists := into[key].([]any)
		switch {
		case value == nil:
			delete(into, key)
		case ok && both:
			merge(old, part)
		case isList && lists:
			into[key] = append(before, list...)
		default:
			into[key] = value
		}
	}
}

func finish(document, patch object) error {
	paths, schemas := at(document, "paths"), at(document, "components", "schemas")
	// A path has one name for what it holds.
	byModel, byField := at(paths, "/v1/models/{model}"), "/v1/models/{model.id}"
	merge(byModel, at(paths, byField))
	delete(paths, byField)
	for _, operations := range paths {
		for _, operation := range operations.(object) {
			finishOperation(operation.(object))
		}
	}
	walk(document, func(o object) {
		if reference, ok := o["$ref"].(string); ok {
			o["$ref"] = strings.Replace(reference, schemaPath+protoNames, schemaPath, 1)
		}
	})
	delete(schemas, "google.rpc.Status")
	for _, name := range slices.Collect(maps.Keys(schemas)) {
		if short, ok := strings.CutPrefix(name, protoNames); ok {
			schemas[short] = schemas[name]
			delete(schemas, name)
		}
	}
	merge(document, patch)
	sent := map[string]bool{}
	for _, operations := range paths {
		for _, operation := range operations.(object) {
			reach(operation.(object)["requestBody"], schemas, sent)
		}
	}
	return require(schemas, sent)
}

func at(o object, path ...string) object {
	for _, key := range path {
		o, _ = o[key].(object)
	}
	return o
}

func finishOperation(operation object) {
	_, operation["operationId"], _ = strings.Cut(operation["operationId"].(string), "_")
	if text, ok := operation["summary"].(string); ok {
		text = strings.ReplaceAll(text, "\n", " ")
		first, _, more := strings.Cut(text, ". ")
		operation["summary"] = strings.TrimSuffix(first, ".") + "."
		if more {
			operation["description"] = text
		}
	}
	at(operation, "responses")["default"] = object{"$ref": "#/components/responses/Error"}
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		parameter := p.(object)
		name := parameter["name"].(string)
		if name == "model.id" {
			parameter["name"], parameter["description"] = "model", "The id of the model, or an alias of it."
		}
		if name, ok := strings.CutSuffix(name, "[string]"); ok { // A map: labels[site]=oslo.
			parameter["name"], parameter["style"], parameter["explode"] = name, "deepObject", true
			parameter["schema"] = object{"type": "object", "additionalProperties": object{"type": "string"}}
		}
	}
}

func walk(v any, visit func(object)) {
	switch v := v.(type) {
	case object:
		visit(v)
		for _, member := range v {
			walk(member, visit)
		}
	case []any:
		for _, element := range v {
			walk(element, visit)
		}
	}
}

// reach collects the names of the schemas that a part of the document uses.
func reach(part any, schemas object, found map[string]bool) {
	walk(part, func(o object) {
		name, ok := strings.CutPrefix(fmt.Sprint(o["$ref"]), schemaPath)
		if ok && !found[name] {
			found[name] = true
			reach(schemas[name], schemas, found)
		}
	})
}

// require says which fields responses always have: those without presence. A message that
// requests hold too requires none.
func require(schemas object, sent map[string]bool) error {
	for name, s := range schemas {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(protoNames + name))
		message, ok := d.(protoreflect.MessageDescriptor)
		if err != nil || !ok || sent[name] {
			continue
		}
		var always []string
		properties := at(s.(object), "properties")
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			if field.HasPresence() {
				continue
			}
			if properties[field.JSONName()] == nil {
				return fmt.Errorf("schema %s has no field %s", name, field.JSONName())
			}
			always = append(always, field.JSONName())
		}
		if slices.Sort(always); len(always) > 0 {
			s.(object)["required"] = always
		}
	}
	return nil
}
