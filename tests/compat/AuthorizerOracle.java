import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.metadata.authorizer.StandardAuthorizerData;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own authoriser as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"super_users", "allow_everyone", "acls": [[type, name, pattern, principal, host, operation, permission]], "questions":
 * [[principal type, principal name, address, operation, type, name]]} gives a list with [allowed or not, the rule as the audit log
 * tells it] for each question. A question whose name is null is asked by resource type, and its rule is null.
 */
public class AuthorizerOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final Metrics METRICS = new Metrics();
    private static int sets;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", decide(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private static JsonNode decide(JsonNode asked) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "node.id", "1",
            "super.users", asked.get("super_users").asText(),
            "allow.everyone.if.no.acl.found", asked.get("allow_everyone").asText()));
        authorizer.withPluginMetrics(new PluginMetricsImpl(METRICS, Map.of("set", Integer.toString(sets++))));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (JsonNode acl : asked.get("acls")) {
            acls.put(new Uuid(7, acls.size() + 1), new StandardAcl(
                ResourceType.valueOf(acl.get(0).asText()),
                acl.get(1).asText(),
                PatternType.valueOf(acl.get(2).asText()),
                acl.get(3).asText(),
                acl.get(4).asText(),
                AclOperation.valueOf(acl.get(5).asText()),
                AclPermissionType.valueOf(acl.get(6).asText())));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        ArrayNode answers = JSON.arrayNode();
        for (JsonNode question : asked.get("questions")) {
            answers.add(answer(authorizer, question));
        }
        return answers;
    }

    private static ArrayNode answer(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(question.get(0).asText(), question.get(1).asText());
        AuthorizableRequestContext context = new Context(principal, InetAddress.getByName(question.get(2).asText()));
        AclOperation operation = AclOperation.valueOf(question.get(3).asText());
        ResourceType type = ResourceType.valueOf(question.get(4).asText());
        if (question.get(5).isNull()) {
            boolean allowed = authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
            return JSON.arrayNode().add(allowed).addNull();
        }
        Action action = new Action(
            operation, new ResourcePattern(type, question.get(5).asText(), PatternType.LITERAL), 1, true, true);
        boolean allowed = authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
        return JSON.arrayNode().add(allowed).add(rule(authorizer, context, action));
    }

    /** What the audit log says behind "based on rule". */
    private static String rule(StandardAuthorizer authorizer, AuthorizableRequestContext context, Action action)
            throws Exception {
        Field field = StandardAuthorizer.class.getDeclaredField("data");
        field.setAccessible(true);
        StandardAuthorizerData data = (StandardAuthorizerData) field.get(authorizer);
        Method superUsers = StandardAuthorizerData.class.getDeclaredMethod("superUsers");
        superUsers.setAccessible(true);
        if (((Set<?>) superUsers.invoke(data)).contains(context.principal().toString())) {
            return "SuperUser";
        }
        Method find = StandardAuthorizerData.class.getDeclaredMethod("findAclRule", Set.class, String.class, Action.class);
        find.setAccessible(true);
        Set<KafkaPrincipal> principals = new java.util.HashSet<>(
            List.of(context.principal(), StandardAuthorizerData.WILDCARD_KAFKA_PRINCIPAL));
        return find.invoke(data, principals, context.clientAddress().getHostAddress(), action).toString();
    }

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "L";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_PLAINTEXT;
        }

        public int requestType() {
            return ApiKeys.METADATA.id;
        }

        public int requestVersion() {
            return 1;
        }

        public String clientId() {
            return "client";
        }

        public int correlationId() {
            return 1;
        }
    }
}
