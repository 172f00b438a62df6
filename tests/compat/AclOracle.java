import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own StandardAuthorizer as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}.
 * {"acls", "super_users", "allow_everyone", "questions", "filters"}: an ACL is [type, name, pattern, principal, host, operation,
 * permission] in Kafka's numbers, a question [principal type, principal name, host, operation, type, name]; the name null asks by
 * resource type. A filter is like an ACL, with nulls. The answer has "decisions", "found" (indexes of ACLs for each filter) and "texts".
 */
public class AclOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", answer(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private static JsonNode answer(JsonNode asked) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", asked.get("super_users").asText(),
            "allow.everyone.if.no.acl.found", asked.get("allow_everyone").asText(),
            "node.id", "1"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        ArrayNode texts = JSON.arrayNode();
        for (JsonNode each : asked.get("acls")) {
            StandardAcl acl = acl(each);
            authorizer.addAcl(Uuid.randomUuid(), acl);
            texts.add(acl.toString());
        }
        authorizer.completeInitialLoad();
        ArrayNode decisions = JSON.arrayNode();
        for (JsonNode each : asked.get("questions")) {
            decisions.add(decide(authorizer, each) == AuthorizationResult.ALLOWED);
        }
        ArrayNode found = JSON.arrayNode();
        for (JsonNode each : asked.get("filters")) {
            AclBindingFilter filter = filter(each);
            ArrayNode indexes = found.addArray();
            for (int index = 0; index < asked.get("acls").size(); index++) {
                AclBinding binding = acl(asked.get("acls").get(index)).toBinding();
                if (filter.matches(binding)) indexes.add(index);
            }
        }
        ObjectNode told = JSON.objectNode();
        told.set("decisions", decisions);
        told.set("found", found);
        told.set("texts", texts);
        return told;
    }

    private static AuthorizationResult decide(StandardAuthorizer authorizer, JsonNode each) throws Exception {
        AuthorizableRequestContext context =
            new Context(new KafkaPrincipal(each.get(0).asText(), each.get(1).asText()), InetAddress.getByName(each.get(2).asText()));
        AclOperation operation = AclOperation.fromCode((byte) each.get(3).asInt());
        ResourceType type = ResourceType.fromCode((byte) each.get(4).asInt());
        if (each.get(5).isNull()) return authorizer.authorizeByResourceType(context, operation, type);
        ResourcePattern resource = new ResourcePattern(type, each.get(5).asText(), PatternType.LITERAL);
        return authorizer.authorize(context, List.of(new Action(operation, resource, 1, false, false))).get(0);
    }

    private static StandardAcl acl(JsonNode each) {
        return new StandardAcl(
            ResourceType.fromCode((byte) each.get(0).asInt()),
            each.get(1).asText(),
            PatternType.fromCode((byte) each.get(2).asInt()),
            each.get(3).asText(),
            each.get(4).asText(),
            AclOperation.fromCode((byte) each.get(5).asInt()),
            AclPermissionType.fromCode((byte) each.get(6).asInt()));
    }

    private static AclBindingFilter filter(JsonNode each) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode((byte) each.get(0).asInt()), text(each.get(1)), PatternType.fromCode((byte) each.get(2).asInt())),
            new AccessControlEntryFilter(
                text(each.get(3)),
                text(each.get(4)),
                AclOperation.fromCode((byte) each.get(5).asInt()),
                AclPermissionType.fromCode((byte) each.get(6).asInt())));
    }

    private static String text(JsonNode each) {
        return each.isNull() ? null : each.asText();
    }

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "oracle";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
