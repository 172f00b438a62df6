import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The Java consumer's own assignors as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "assign", "assignor", "topics", "members"} gives each member's partitions, where "topics" has the racks of each partition of each
 * topic; {"do": "user_data", "assignor", "topics", "partitions", "generation"} gives what a member that was assigned these partitions adds
 * to its next subscription, in hex or null.
 */
public class AssignorOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                JsonNode question = mapper.readTree(line);
                answer.set("ok", question.get("do").asText().equals("assign") ? assign(question) : userData(question));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private static ConsumerPartitionAssignor assignor(JsonNode question) {
        return switch (question.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private static JsonNode assign(JsonNode question) {
        Map<String, Subscription> members = new HashMap<>();
        question.get("members").properties().forEach(member -> members.put(member.getKey(), subscription(member.getValue())));
        Map<String, Assignment> made =
            assignor(question).assign(cluster(question.get("topics")), new GroupSubscription(members)).groupAssignment();
        ObjectNode answer = JSON.objectNode();
        new TreeMap<>(made).forEach((member, assignment) -> {
            ArrayNode partitions = answer.putArray(member);
            assignment.partitions().forEach(each -> partitions.addArray().add(each.topic()).add(each.partition()));
        });
        return answer;
    }

    private static JsonNode userData(JsonNode question) {
        ConsumerPartitionAssignor assignor = assignor(question);
        int generation = question.get("generation").asInt();
        assignor.onAssignment(
            new Assignment(partitions(question.get("partitions"))),
            new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        ByteBuffer data = assignor.subscriptionUserData(Set.copyOf(texts(question.get("topics"))));
        if (data == null) {
            return JSON.nullNode();
        }
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return JSON.textNode(HexFormat.of().formatHex(bytes));
    }

    private static Subscription subscription(JsonNode said) {
        ByteBuffer data = said.get("user_data").isNull()
            ? null
            : ByteBuffer.wrap(HexFormat.of().parseHex(said.get("user_data").asText()));
        Subscription subscription = new Subscription(
            texts(said.get("topics")), data, partitions(said.get("owned")), said.get("generation").asInt(), text(said.get("rack")));
        subscription.setGroupInstanceId(text(said.get("instance")));
        return subscription;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> known = new ArrayList<>();
        topics.properties().forEach(topic -> {
            int index = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : texts(racks)) {
                    replicas.add(nodes.computeIfAbsent(rack, name -> new Node(nodes.size() + 1, "host", 9092, name)));
                }
                if (replicas.isEmpty()) {
                    replicas.add(nodes.computeIfAbsent("", name -> new Node(nodes.size() + 1, "host", 9092)));
                }
                Node[] holders = replicas.toArray(new Node[0]);
                known.add(new PartitionInfo(topic.getKey(), index++, holders[0], holders, holders));
            }
        });
        return new Cluster("cluster", nodes.values(), known, Set.of(), Set.of());
    }

    private static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> partitions = new ArrayList<>();
        pairs.forEach(each -> partitions.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        return partitions;
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(each -> texts.add(each.asText()));
        return texts;
    }

    private static Optional<String> text(JsonNode value) {
        return value.isNull() ? Optional.empty() : Optional.of(value.asText());
    }
}
