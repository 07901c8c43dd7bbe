import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/** Sends batches as Java does by default, which offers HTTP/2, until its input ends; prints the size of each that was acknowledged. */
public class Soak {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int number = 1; System.in.available() == 0; number++) {
            int size = 1 + number % 200;
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0]))
                .header("Authorization", "Bearer " + arguments[1])
                .header("Content-Type", "text/plain")
                .header("Idempotency-Key", "java-" + number)
                .POST(BodyPublishers.ofString("java\n".repeat(size)))
                .build();
            while (!isCounted(client, request, size)) {
                Thread.sleep(50);
                client = HttpClient.newHttpClient();  // a new one offers HTTP/2 again
            }
            System.out.println(size);
        }
    }

    /** False where the connection broke or the server was busy: then the same is sent again under its key. */
    static boolean isCounted(HttpClient client, HttpRequest request, int size) throws InterruptedException {
        try {
            var answer = client.send(request, BodyHandlers.ofString());
            if (answer.statusCode() != 200 && answer.statusCode() != 503) {
                System.out.println("answered " + answer.statusCode() + " " + answer.body());
            } else if (answer.statusCode() == 200 && !answer.body().equals("{\"accepted\":" + size + "}")) {
                System.out.println("acknowledged as " + answer.body());
            }
            return answer.statusCode() == 200;
        } catch (IOException broken) {
            return false;
        }
    }
}
