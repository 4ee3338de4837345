package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// labTopic is a topic to make in a lab, whose brokers make none by themselves.
type labTopic struct {
	name       string
	partitions int32
}

var topicForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// maxLabPartitions bounds a topic of a lab: it is one small node.
const maxLabPartitions = 1000

// parseLabTopics reads NAME or NAME:PARTITIONS.
func parseLabTopics(words []string) ([]labTopic, error) {
	topics := make([]labTopic, 0, len(words))
	for _, word := range words {
		name, count, given := strings.Cut(word, ":")
		t := labTopic{name: name, partitions: 1}
		if given {
			n, err := strconv.ParseInt(count, 10, 32)
			if err != nil || n < 1 || n > maxLabPartitions {
				return nil, usageErrorf("--topic %q: expected NAME or NAME:PARTITIONS, with 1 to %d partitions", word, maxLabPartitions)
			}
			t.partitions = int32(n)
		}
		if len(name) > 249 || !topicForm.MatchString(name) || name == "." || name == ".." {
			return nil, usageErrorf("--topic %q: a name is 1 to 249 of A-Z a-z 0-9 . _ -", word)
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// createLabTopics makes the topics, which a lab's brokers have not seen yet.
func createLabTopics(ctx context.Context, brokers []string, topics []labTopic) error {
	if len(topics) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, t := range topics {
		if _, err := admin.CreateTopic(ctx, t.partitions, 1, nil, t.name); err != nil {
			return fmt.Errorf("create topic %s: %w", t.name, err)
		}
	}
	return nil
}
